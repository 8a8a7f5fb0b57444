#include "backends/cuda/row_text.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>

#include "backends/cuda/source.h"
#include "base/check.h"
#include "base/checked_math.h"
#include "ops/common/checks.h"
#include "runtime/axes.h"

namespace dif::cuda {

namespace {

/// Elements that one thread adds up in a row. The partition of a sum must not depend on V.
constexpr std::int64_t kChunk = 8;
/// Vectors up to this long are summed by a warp, longer ones by the block.
constexpr std::int64_t kWarpVector = 1024;
constexpr std::int64_t kElementsOfBlock = 4096;
constexpr std::int64_t kMostShared = 40 << 10;  ///< without asking for more than every device grants

std::int64_t last_axis(const ir::OpView& op) {
  return op.in(0).dim(-1);
}

std::int64_t size_of(const ir::TensorType& type) {
  return static_cast<std::int64_t>(dtype_size(type.dtype));
}

bool has_arithmetic(DType dtype) {
  return ops::is_number(dtype);
}

}  // namespace

RowText::RowText(const runtime::GroupRequest& request) : rows_(request.rows) {
  outputs_.resize(request.n_outputs);
  for (std::size_t i = 0; i < request.ops.size(); ++i) {
    const runtime::GroupOp& op = request.ops[i];
    steps_.push_back({op.op, i, op.operands});
    if (op.output != runtime::kNoOutput) outputs_[op.output] = i;
    for (std::size_t k = 0; k < op.operands.size(); ++k)
      if (!op.operands[k].inside) inputs_[op.operands[k].index] = &op.op->in(k);
  }
}

Status RowText::check() const {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  for (const RowStep& step : steps_) {
    if (row_operation(step.op->def()) == nullptr)
      return runtime::declined("{} has no text for rows", step.op->def().name);
    for (std::size_t i = 0; i < step.op->n_ins(); ++i)
      if (!has_arithmetic(step.op->in(i).dtype))
        return runtime::declined("no arithmetic on {}", step.op->in(i).dtype);
    if (row_operation(step.op->def())->statistics != RowOperation::kNone &&
        step.op->out().numel() / rows_ > kMost)
      return runtime::declined("rows of {} are longer than 32-bit indices count", step.op->out());
  }
  return ok();
}

// --- choices ---------------------------------------------------------------------------------------------

/// The largest number of elements up to 16 bytes of the smallest type that stay together everywhere.
void RowText::choose_vector() {
  std::int64_t smallest = 4, together = 8;
  for (const RowStep& step : steps_) {
    const RowOperation& operation = *row_operation(step.op->def());
    smallest = std::min(smallest, size_of(step.op->out()));
    for (std::size_t i = 0; i < step.op->n_ins(); ++i) smallest = std::min(smallest, size_of(step.op->in(i)));
    if (operation.together != nullptr) together = std::gcd(together, operation.together(*step.op));
    together = std::gcd(together, width(step.index));
    if (operation.statistics != RowOperation::kNone) together = std::gcd(together, last_axis(*step.op));
  }
  vector_ = static_cast<int>(std::min(together, 16 / smallest));
}

/// How many rows a block takes, and what it keeps in shared memory.
void RowText::choose_block() {
  std::int64_t widest = 1;
  bool any = false;
  for (const RowStep& step : steps_) {
    widest = std::max({widest, width(step.index), step.op->in(0).numel() / rows_});
    any |= row_operation(step.op->def())->statistics != RowOperation::kNone;
  }
  if (!any) return;
  rows_of_block_ = std::clamp<std::int64_t>(kElementsOfBlock / widest, 1, rows_);
  const auto reserve = [&](std::int64_t bytes) {
    const std::int64_t at = shared_bytes_;
    shared_bytes_ = static_cast<std::int64_t>(align_up(static_cast<std::size_t>(at + bytes), 16));
    return at;
  };
  reserve(32 * 4);  // scratch of block_sum
  for (const RowStep& step : steps_)
    if (row_operation(step.op->def())->statistics != RowOperation::kNone)
      statistics_[step.index] =
          reserve(rows_of_block_ * (step.op->in(0).numel() / rows_) / last_axis(*step.op) * 8);
  for (const RowStep& step : steps_) {
    if (row_operation(step.op->def())->statistics == RowOperation::kNone) continue;
    const runtime::GroupOperand& from = step.operands[0];
    const ir::TensorType& type = from.inside ? result(from.index) : step.op->in(0);
    Kept kept = {0, type.numel() / rows_, type.dtype};
    const std::int64_t bytes = rows_of_block_ * kept.width * size_of(type);
    if (kept_.contains({from.inside, from.index}) || shared_bytes_ + bytes > kMostShared) continue;
    kept.offset = reserve(bytes);
    kept_[{from.inside, from.index}] = kept;
  }
}

std::int64_t RowText::blocks() const {
  if (has_statistics()) return ceil_div(rows_, rows_of_block_);
  std::int64_t most = 0;
  for (const std::size_t output : outputs_) most = std::max(most, result(output).numel());
  return ceil_div(most, std::int64_t{vector_} * kThreads);
}

int RowText::shared_bytes() const {
  return static_cast<int>(shared_bytes_);
}

// --- pulling ---------------------------------------------------------------------------------------------

std::string RowText::fresh(const char* stem) {
  return fmt::format("{}{}", stem, n_names_++);
}

const std::string* RowText::known(const std::string& key) const {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
    if (const auto found = scope->find(key); found != scope->end()) return &found->second;
  return nullptr;
}

void RowText::open(const std::string& head) {
  line(head + " {");
  scopes_.emplace_back();
}

void RowText::close() {
  scopes_.pop_back();
  line("}");
}

std::string RowText::declare(const RowStep& step) {
  const std::string name = fresh("v");
  line(fmt::format("alignas(16) {} {}[{}];", type_name(step.op->out().dtype), name, vector_));
  return name;
}

/// V elements of what the block keeps.
std::string RowText::load_kept(const Kept& kept, const std::string& p) {
  const std::string key = fmt::format("kept {} at {}", kept.offset, p);
  if (const std::string* name = known(key)) return *name;
  const std::string name = fresh("x"), type = type_name(kept.dtype);
  line(fmt::format("alignas(16) {} {}[{}];", type, name, vector_));
  line(fmt::format("load<{}>(({}*)(shared + {}) + {}, {});", vector_, type, kept.offset, p, name));
  scopes_.back()[key] = name;
  return name;
}

/// What the block keeps of an operand, once it is there.
const RowText::Kept* RowText::kept(bool inside, std::size_t index) const {
  const auto found = kept_.find({inside, index});
  return found == kept_.end() || !found->second.filled ? nullptr : &found->second;
}

std::string RowText::pull_step(std::size_t step, const std::string& p) {
  if (const Kept* there = kept(true, step)) return load_kept(*there, p);
  const std::string key = fmt::format("step {} at {}", step, p);
  if (const std::string* name = known(key)) return *name;
  const std::string name = row_operation(steps_[step].op->def())->emit(*this, steps_[step], p);
  scopes_.back()[key] = name;
  return name;
}

std::string RowText::pull(const RowStep& step, std::size_t operand, const std::string& p) {
  const runtime::GroupOperand& from = step.operands[operand];
  if (from.inside) return pull_step(from.index, p);
  if (const Kept* there = kept(false, from.index)) return load_kept(*there, p);
  const ir::TensorType& type = step.op->in(operand);
  if (!has_statistics()) return load_at(step, operand, p);
  return load_at(step, operand, fmt::format("(row0 * {} + {})", type.numel() / rows_, p));
}

std::string RowText::load_at(const RowStep& step, std::size_t operand, const std::string& at) {
  const std::size_t input = step.operands[operand].index;
  const std::string key = fmt::format("input {} at {}", input, at);
  if (const std::string* name = known(key)) return *name;
  const std::string name = fresh("x");
  line(fmt::format("alignas(16) {} {}[{}];", type_name(step.op->in(operand).dtype), name, vector_));
  line(fmt::format("load<{}>(in{} + {}, {});", vector_, input, at, name));
  scopes_.back()[key] = name;
  return name;
}

std::string RowText::absolute(const RowStep& step, const std::string& p) const {
  return has_statistics() ? fmt::format("(row0 * {} + {})", width(step.index), p) : p;
}

std::string RowText::load_broadcast(const RowStep& step, std::size_t operand, const std::string& p) {
  const ir::TensorType& type = step.op->in(operand);
  const Shape& shape = step.op->out().shape;
  if (type.numel() == shape.numel()) return pull(step, operand, p);
  const runtime::Axes axes = runtime::collapse(shape, {runtime::broadcast_strides(type.shape, shape)});
  // The operand's index for element e of the result.
  const auto index = [&](const std::string& e) {
    std::string sum;
    std::int64_t below = 1;
    for (std::size_t a = axes.sizes.size(); a-- > 0; below *= axes.sizes[a]) {
      const std::int64_t stride = axes.strides[0][a];
      if (stride == 0) continue;
      std::string at = below == 1 ? e : fmt::format("{} / {}", e, below);
      if (a != 0) at = fmt::format("({}) % {}", at, axes.sizes[a]);
      sum += fmt::format("{}({}) * {}", sum.empty() ? "" : " + ", at, stride);
    }
    return sum.empty() ? std::string("0") : sum;
  };
  const std::string e = absolute(step, p);
  const bool whole = axes.inner() % vector_ == 0;
  if (whole && axes.inner_stride(0) == 1) return load_at(step, operand, "(" + index(e) + ")");
  const std::size_t input = step.operands[operand].index;
  const std::string key = fmt::format("input {} for {} at {}", input, shape, e);
  if (const std::string* name = known(key)) return *name;
  const std::string name = fresh("x"), one = whole && axes.inner_stride(0) == 0 ? e : "(" + e + " + k)";
  line(fmt::format("{} {}[{}];", type_name(type.dtype), name, vector_));
  line(fmt::format("#pragma unroll\nfor (int k = 0; k < {}; ++k) {}[k] = in{}[{}];", vector_, name, input,
                   index(one)));
  scopes_.back()[key] = name;
  return name;
}

std::string RowText::statistics(const RowStep& step, const std::string& p) const {
  return fmt::format("((float*)(shared + {}) + ({}) / {} * 2)", statistics_.at(step.index), p,
                     last_axis(*step.op));
}

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
    open(fmt::format("for (int c = {} * {}; c < {}; c += {})",
                     by_warp ? "(int)threadIdx.x % 32" : "(int)threadIdx.x", kChunk, length,
                     (by_warp ? 32 : kThreads) * kChunk));
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
    for (const std::size_t i : outputs) {
      const std::string name = pull_step(outputs_[i], "p");
      line(fmt::format("store<{}>(out{} + {}, {});", vector_, i, absolute(steps_[outputs_[i]], "p"), name));
    }
    close();
    if (!has_statistics()) line("}");
  }
}

/// Whether 32 bits hold every index, also that of threads past the end.
bool RowText::counts_in_32_bits() const {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
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

std::string RowText::text() {
  choose_vector();
  choose_block();
  scopes_.emplace_back();
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
  scopes_.pop_back();
  return prelude() + fmt::format("typedef {} Position;\n", counts_in_32_bits() ? "unsigned" : "Index") +
         fmt::format("extern \"C\" __global__ void __launch_bounds__({}) rows({}) {{\n", kThreads,
                     parameters()) +
         body_ + "}\n";
}

// --- elements --------------------------------------------------------------------------------------------

std::string emit_elements(RowText& text, const RowStep& step, const std::string& p,
                          ElementExpression expression) {
  std::vector<std::string> arrays, names;
  for (std::size_t i = 0; i < step.operands.size(); ++i) arrays.push_back(text.load_broadcast(step, i, p));
  const std::string result = text.declare(step);
  std::string loop = fmt::format("#pragma unroll\nfor (int k = 0; k < {}; ++k) {{ ", text.vector());
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    names.push_back(fmt::format("e{}", i));
    loop += fmt::format("const auto e{} = decode({}[k]); ", i, arrays[i]);
  }
  text.line(loop + fmt::format("{}[k] = encode<{}>({}); }}", result, type_name(step.op->out().dtype),
                               expression(*step.op, names)));
  return result;
}

std::string float_literal(float value) {
  return fmt::format("__int_as_float({:#x})", std::bit_cast<std::uint32_t>(value));
}

}  // namespace dif::cuda
