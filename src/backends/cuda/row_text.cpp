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

constexpr std::int64_t kElementsOfBlock = 4096;
constexpr std::int64_t kMostShared = 40 << 10;  ///< without asking for more than every device grants

/// Vectors of a thread where there are enough of them: more loads are under way at once.
constexpr int kVectorsOfThread = 2;
constexpr std::int64_t kManyBlocks = 2048;
/// What a thread keeps in registers at most.
constexpr std::int64_t kMostPieces = 16;

std::int64_t size_of(const ir::TensorType& type) {
  return static_cast<std::int64_t>(dtype_size(type.dtype));
}

bool has_arithmetic(DType dtype) {
  return ops::is_number(dtype);
}

}  // namespace

RowText::RowText(const runtime::GroupRequest& request)
    : in_pitches_(request.in_pitches.begin(), request.in_pitches.end()),
      out_pitches_(request.out_pitches.begin(), request.out_pitches.end()),
      rows_(request.rows) {
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
  for (const auto* pitches : {&in_pitches_, &out_pitches_})
    for (const plan::Pitch& pitch : *pitches) together = std::gcd(together, std::gcd(pitch.run, pitch.pitch));
  vector_ = static_cast<int>(std::min(together, 16 / smallest));
}

/// The threads that share out the chunks of a long vector, as many for each where that is possible. Depends
/// on the length alone: so does the order of its sum.
int RowText::block_threads(std::int64_t length) {
  const std::int64_t chunks = length / kChunk;
  for (int threads = kThreads; threads >= kThreads / 2; threads -= 32)
    if (chunks % threads == 0) return threads;
  return kThreads;
}

/// In registers, where all statistics are of vectors of one length that threads can share out evenly.
void RowText::choose_registers() {
  InRegisters chosen;
  for (const RowStep& step : steps_) {
    if (row_operation(step.op->def())->statistics == RowOperation::kNone) continue;
    if (chosen.length != 0 && chosen.length != last_axis(*step.op)) return;
    chosen.length = last_axis(*step.op);
    chosen.elements = step.op->in(0).numel();
  }
  if (chosen.length == 0 || chosen.length % kChunk != 0) return;
  for (const std::size_t output : outputs_)
    if (result(output).numel() != chosen.elements) return;
  const std::int64_t chunks = chosen.length / kChunk;
  if (chunks <= 32) {
    if (!std::has_single_bit(static_cast<std::uint64_t>(chunks))) return;
    chosen.lanes = static_cast<int>(chunks);
    if (chosen.elements % (kThreads * kChunk * kVectorsOfThread) == 0 &&
        chosen.elements / (kThreads * kChunk * kVectorsOfThread) >= kManyBlocks)
      chosen.chunks = kVectorsOfThread;
  } else {
    chosen.threads = block_threads(chosen.length);
    if (chosen.length <= kWarpVector || chunks % chosen.threads != 0) return;
    chosen.chunks = static_cast<int>(chunks / chosen.threads);
  }
  if (chosen.chunks * (kChunk / vector_) <= kMostPieces) in_registers_ = chosen;
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
  if (in_registers_)
    return ceil_div(in_registers_->elements,
                    std::int64_t{in_registers_->threads} * in_registers_->chunks * kChunk);
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

const plan::Pitch& RowText::pitch(bool output, std::size_t index) const {
  static const plan::Pitch kDense;
  const auto& pitches = output ? out_pitches_ : in_pitches_;
  return index < pitches.size() ? pitches[index] : kDense;
}

/// Where element `at` of a value lies.
std::string RowText::placed(const plan::Pitch& pitch, const std::string& at) const {
  if (pitch.dense()) return at;
  return fmt::format("(({0}) / {1} * {2} + ({0}) % {1})", at, pitch.run, pitch.pitch);
}

std::string RowText::load_at(const RowStep& step, std::size_t operand, const std::string& at) {
  const std::size_t input = step.operands[operand].index;
  const std::string key = fmt::format("input {} at {}", input, at);
  if (const std::string* name = known(key)) return *name;
  const std::string name = fresh("x");
  line(fmt::format("alignas(16) {} {}[{}];", type_name(step.op->in(operand).dtype), name, vector_));
  line(fmt::format("load<{}>(in{} + {}, {});", vector_, input, placed(pitch(false, input), at), name));
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

std::string RowText::statistics(const RowStep& step, const std::string& p) {
  if (in_registers_) {
    const auto chunk = chunk_of_.find(p);
    lost_ |= chunk == chunk_of_.end();
    if (lost_) return "";
    return fmt::format("s{}_{}", step.index, in_registers_->lanes == 0 ? 0 : chunk->second);
  }
  return fmt::format("((float*)(shared + {}) + ({}) / {} * 2)", statistics_.at(step.index), p,
                     last_axis(*step.op));
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
