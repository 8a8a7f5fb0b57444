#include <algorithm>
#include <limits>

#include "backends/cuda/row_text.h"
#include "backends/cuda/source.h"
#include "base/checked_math.h"
#include "runtime/axes.h"

namespace dif::cuda {

// --- phases ----------------------------------------------------------------------------------------------

/// A loop of the block over its elements of a value that has `width` elements a row.
std::string RowText::element_loop(std::int64_t width, const std::string& variable) const {
  return fmt::format("for (int {0} = (int)threadIdx.x * {1}; {0} < n_rows * {2}; {0} += {3})", variable,
                     vector_, width, kThreads * vector_);
}

/// Text that adds `term` of every element of a vector: chunks of kChunk elements go round the threads that
/// share the work, `first` and `stride` in chunks.
void RowText::statistics_sums(const RowStep& step) {
  const RowOperation& operation = *row_operation(step.op->def());
  const std::int64_t length = last_axis(*step.op);
  const bool by_warp = length <= kWarpVector;
  const auto sum = [&](const char* name, const char* term) {
    line(fmt::format("float {} = 0;", name));
    const int sharing = by_warp ? 32 : block_threads(length);
    if (!by_warp && sharing != kThreads) line(fmt::format("if (threadIdx.x < {})", sharing));
    open(fmt::format("for (int c = {} * {}; c < {}; c += {})",
                     by_warp ? "(int)threadIdx.x % 32" : "(int)threadIdx.x", kChunk, length,
                     sharing * kChunk));
    for (std::int64_t part = 0; part < kChunk; part += vector_) {
      if (length % kChunk != 0)
        open(fmt::format("if (c + {} < {})", part, length));
      else
        open("");
      const std::string p = fresh("p");
      line(fmt::format("const int {} = s * {} + c + {};", p, length, part));
      const std::string x = pull(step, 0, p);
      line(fmt::format(
          "#pragma unroll\nfor (int k = 0; k < {}; ++k) {{ const float x = decode({}[k]); {} += {}; }}",
          vector_, x, name, term));
      close();
    }
    close();
    line(by_warp ? fmt::format("{0} = warp_sum({0});", name)
                 : fmt::format("{0} = block_sum({0}, scratch);", name));
  };
  const std::int64_t vectors = step.op->in(0).numel() / rows_ / length;
  open(by_warp ? fmt::format("for (int s = (int)threadIdx.x / 32; s < n_rows * {}; s += {})", vectors,
                             kThreads / 32)
               : fmt::format("for (int s = 0; s < n_rows * {}; ++s)", vectors));
  if (operation.statistics == RowOperation::kMoments) {
    sum("sum", "x");
    line(fmt::format("const float mean = sum / {}.0f;", length));
  } else {
    line("const float mean = 0;");
  }
  sum("squares", operation.statistics == RowOperation::kMoments ? "(x - mean) * (x - mean)" : "x * x");
  line(by_warp ? "if (threadIdx.x % 32 == 0) {" : "if (threadIdx.x == 0) {");
  line(fmt::format("float* result = (float*)(shared + {}) + s * 2;", statistics_.at(step.index)));
  line("result[0] = mean;");
  line(fmt::format("result[1] = 1.0f / sqrtf(squares / {}.0f + {});", length,
                   float_literal(step.op->f32("eps"))));
  line("}");
  close();
  line("__syncthreads();");
}

void RowText::statistics_phase(const RowStep& step) {
  const runtime::GroupOperand& from = step.operands[0];
  const auto found = kept_.find({from.inside, from.index});
  if (found != kept_.end() && !found->second.filled) {
    Kept& filling = found->second;
    open(element_loop(filling.width, "p"));
    const std::string name = pull(step, 0, "p");
    line(fmt::format("store<{}>(({}*)(shared + {}) + p, {});", vector_, type_name(filling.dtype),
                     filling.offset, name));
    close();
    line("__syncthreads();");
    filling.filled = true;
  }
  statistics_sums(step);
}

// --- in registers ----------------------------------------------------------------------------------------

/// Sums over the threads of a vector, each of which has added up its own chunks in their order.
void RowText::statistics_in_registers(const RowStep& step, const std::vector<Piece>& pieces) {
  const InRegisters& way = *in_registers_;
  const bool moments = row_operation(step.op->def())->statistics == RowOperation::kMoments;
  std::vector<std::string> arrays;
  for (const Piece& piece : pieces) arrays.push_back(pull(step, 0, piece.p));
  const auto sum = [&](const std::string& name, int chunk, const std::string& term) {
    line(fmt::format("float {} = 0;", name));
    for (std::size_t i = 0; i < pieces.size(); ++i)
      if (way.lanes == 0 || pieces[i].chunk == chunk)
        line(fmt::format(
            "#pragma unroll\nfor (int k = 0; k < {}; ++k) {{ const float x = decode({}[k]); {} += {}; }}",
            vector_, arrays[i], name, term));
    if (way.lanes == 0)
      line(
          fmt::format("__shared__ float {1}[32];\n{0} = block_sum_apart({0}, {1});", name, fresh("scratch")));
    else
      line(fmt::format("{0} = lanes_sum<{1}>({0});", name, way.lanes));
  };
  for (int chunk = 0; chunk < (way.lanes == 0 ? 1 : way.chunks); ++chunk) {
    const std::string name = fmt::format("s{}_{}", step.index, chunk), total = fresh("sum"),
                      squares = fresh("squares");
    if (moments) {
      sum(total, chunk, "x");
      line(fmt::format("const float {}_mean = {} / {}.0f;", name, total, way.length));
    } else {
      line(fmt::format("const float {}_mean = 0;", name));
    }
    sum(squares, chunk, moments ? fmt::format("(x - {0}_mean) * (x - {0}_mean)", name) : "x * x");
    line(fmt::format("const float {0}[2] = {{{0}_mean, 1.0f / sqrtf({1} / {2}.0f + {3})}};", name, squares,
                     way.length, float_literal(step.op->f32("eps"))));
  }
}

void RowText::write_in_registers() {
  const InRegisters& way = *in_registers_;
  line(fmt::format("const Position first = ((Position)blockIdx.x * {} + threadIdx.x) * {};",
                   way.threads * way.chunks, kChunk));
  const std::int64_t of_block = std::int64_t{way.threads} * way.chunks * kChunk;
  open(way.elements % of_block == 0 ? "" : fmt::format("if (first < {}LL)", way.elements));
  std::vector<Piece> pieces;
  for (int chunk = 0; chunk < way.chunks; ++chunk)
    for (std::int64_t k = 0; k < kChunk; k += vector_) {
      const std::string p = fresh("p");
      line(fmt::format("const Position {} = first + {};", p, chunk * way.threads * kChunk + k));
      pieces.push_back({p, chunk});
      chunk_of_[p] = chunk;
    }
  for (const RowStep& step : steps_)
    if (row_operation(step.op->def())->statistics != RowOperation::kNone)
      statistics_in_registers(step, pieces);
  for (const Piece& piece : pieces)
    for (std::size_t i = 0; i < outputs_.size(); ++i) store_output(i, piece.p);
  close();
}

// --- results ---------------------------------------------------------------------------------------------

void RowText::store_output(std::size_t output, const std::string& p) {
  const std::string name = pull_step(outputs_[output], p);
  const std::string at = placed(pitch(true, output), absolute(steps_[outputs_[output]], p));
  line(fmt::format("store<{}>(out{} + {}, {});", vector_, output, at, name));
}

/// Results of one width are written in one loop.
void RowText::write_phase() {
  std::map<std::int64_t, std::vector<std::size_t>> by_width;
  for (std::size_t i = 0; i < outputs_.size(); ++i) by_width[width(outputs_[i])].push_back(i);
  for (const auto& [row_width, outputs] : by_width) {
    if (has_statistics()) {
      open(element_loop(row_width, "p"));
    } else {
      line("{");
      line(fmt::format("const Position p = ((Position)blockIdx.x * {} + threadIdx.x) * {};", kThreads,
                       vector_));
      open(fmt::format("if (p < {}LL)", row_width * rows_));
    }
    for (const std::size_t i : outputs) store_output(i, "p");
    close();
    if (!has_statistics()) line("}");
  }
}

/// Whether 32 bits hold every index, also that of threads past the end.
bool RowText::counts_in_32_bits() const {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  const auto is_short = [](const ir::TensorType& type, const plan::Pitch& pitch) {
    return (pitch.dense() ? type.numel() : type.numel() / pitch.run * pitch.pitch) <= kMost;
  };
  for (const auto& [index, type] : inputs_)
    if (!is_short(*type, pitch(false, index))) return false;
  for (std::size_t i = 0; i < outputs_.size(); ++i)
    if (!is_short(result(outputs_[i]), pitch(true, i))) return false;
  return std::ranges::all_of(steps_, [](const RowStep& step) {
    for (std::size_t i = 0; i < step.op->n_ins(); ++i)
      if (step.op->in(i).numel() > kMost) return false;
    return step.op->out().numel() <= kMost;
  });
}

std::string RowText::parameters() const {
  std::string text;
  const std::size_t n_inputs = inputs_.empty() ? 0 : inputs_.rbegin()->first + 1;
  for (std::size_t i = 0; i < n_inputs; ++i) {
    const auto used = inputs_.find(i);
    text += fmt::format("{}const {}* __restrict__ in{}", text.empty() ? "" : ", ",
                        used == inputs_.end() ? "void" : type_name(used->second->dtype), i);
  }
  for (std::size_t i = 0; i < outputs_.size(); ++i)
    text += fmt::format("{}{}* __restrict__ out{}", text.empty() ? "" : ", ",
                        type_name(result(outputs_[i]).dtype), i);
  return text;
}

void RowText::write_in_rows() {
  choose_block();
  if (has_statistics()) {
    line("extern __shared__ __align__(16) unsigned char shared[];");
    line("float* const scratch = (float*)shared;");
    line(fmt::format("const Position row0 = (Position)blockIdx.x * {};", rows_of_block_));
    line(fmt::format("const int n_rows = (int)min((Position){}, (Position){}LL - row0);", rows_of_block_,
                     rows_));
    for (const RowStep& step : steps_)
      if (statistics_.contains(step.index)) statistics_phase(step);
  }
  write_phase();
}

std::string RowText::text() {
  choose_vector();
  choose_registers();
  scopes_.emplace_back();
  if (in_registers_) write_in_registers();
  if (lost_) {
    in_registers_.reset();
    body_.clear();
    scopes_.assign(1, {});
  }
  if (!in_registers_) write_in_rows();
  scopes_.pop_back();
  return prelude() + fmt::format("typedef {} Position;\n", counts_in_32_bits() ? "unsigned" : "Index") +
         fmt::format("extern \"C\" __global__ void __launch_bounds__({}) rows({}) {{\n", threads(),
                     parameters()) +
         body_ + "}\n";
}

}  // namespace dif::cuda
