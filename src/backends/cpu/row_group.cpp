#include "backends/cpu/row_group.h"

#include <algorithm>
#include <vector>

#include "backends/cpu/parallel.h"
#include "backends/cpu/row_operation.h"
#include "backends/cpu/stream_out.h"
#include "base/checked_math.h"
#include "ops/add/add.op.h"
#include "ops/add_scalar/add_scalar.op.h"
#include "ops/cast/cast.op.h"
#include "ops/common/checks.h"
#include "ops/concat/concat.op.h"
#include "ops/layer_norm/layer_norm.op.h"
#include "ops/mul/mul.op.h"
#include "ops/mul_scalar/mul_scalar.op.h"
#include "ops/rms_norm/rms_norm.op.h"
#include "ops/rotary/rotary.op.h"
#include "ops/silu/silu.op.h"
#include "ops/slice/slice.op.h"
#include "ops/sqrt/sqrt.op.h"
#include "ops/sub/sub.op.h"

namespace dif::cpu {

namespace {

using ir::RowRule;
using runtime::GroupOp;
using runtime::GroupRequest;
using runtime::KernelArgs;

/// Bytes that a core keeps in its first cache beside what streams past, and in its second.
constexpr std::int64_t kNearBytes = 20 << 10, kFarBytes = 768 << 10;
/// Results of one task, in elements: enough that threads meet rarely.
constexpr std::int64_t kTaskElements = 4 * kBlockElements;
/// Bytes of a row's part that are read where they are: shorter ones are copied together for several rows.
constexpr std::int64_t kWidePart = 4 << 10;
/// Bytes written by a group beyond which no cache holds them until they are read.
constexpr std::int64_t kStreamedBytes = 32 << 20;
constexpr std::size_t kAlignment = 64;

struct Entry {
  const ir::OpDef* op;
  RowFunction (*rows)();
  const char* scalar;  ///< the attribute that is RowOperation::value
};

constexpr Entry kEntries[] = {
    {&ops::kAdd, rows_of_add, nullptr},
    {&ops::kSub, rows_of_sub, nullptr},
    {&ops::kMul, rows_of_mul, nullptr},
    {&ops::kAddScalar, rows_of_add_scalar, "value"},
    {&ops::kMulScalar, rows_of_mul_scalar, "value"},
    {&ops::kSilu, rows_of_silu, nullptr},
    {&ops::kSqrt, rows_of_sqrt, nullptr},
    {&ops::kCast, rows_of_cast, nullptr},
    {&ops::kRmsNorm, rows_of_rms_norm, "eps"},
    {&ops::kLayerNorm, rows_of_layer_norm, "eps"},
    {&ops::kRotary, rows_of_rotary, nullptr},
    {&ops::kSlice, rows_of_slice, nullptr},
    {&ops::kConcat, rows_of_concat, nullptr},
};

const Entry* entry_of(const ir::OpDef& op) {
  const auto found = std::ranges::find(kEntries, &op, &Entry::op);
  return found == std::end(kEntries) ? nullptr : found;
}

std::int64_t columns_of(const ir::TensorType& type) {
  return type.rank() == 0 ? 1 : type.dim(-1);
}

/// Whether the rows of operand i are those of the result; else the operation reads it by its own rule.
bool is_dense(const ir::OpView& op, std::size_t i) {
  switch (op.def().row_rule) {
    case RowRule::kElementwise:
      return op.in(i).numel() == op.out().numel();
    case RowRule::kSlice:
    case RowRule::kConcat:
      return true;
    default:
      return i == 0;
  }
}

RowOperation describe(const ir::OpView& op, std::int64_t rows) {
  RowOperation result;
  result.dtype = op.out().dtype;
  result.width = op.out().numel() / rows;
  result.columns = columns_of(op.out());
  if (const char* scalar = entry_of(op.def())->scalar) result.value = op.f32(scalar);
  if (op.def().row_rule == RowRule::kElementwise && op.n_ins() == 2)
    result.broadcast = plan_broadcast(op.in(0).shape, op.in(1).shape, op.out().shape);
  if (op.def().row_rule == RowRule::kSlice) result.first_column = op.i64("start");
  if (op.def().row_rule == RowRule::kHeads) {
    result.tokens = op.in(0).dim(1);
    result.heads = op.in(0).dim(2);
    result.half = op.in(1).dim(1);
    result.interleaved = op.flag("interleaved");
  }
  return result;
}

/// Where the elements of an operand or a result are.
struct Place {
  enum Kind { kScratch, kInput, kOutput };
  Kind kind = kScratch;
  std::uint32_t index = 0;  ///< of the kernel's `in` or `out`
  std::int64_t offset = 0;  ///< kScratch: bytes per row in front of it; else bytes from the start of a row
  std::int64_t step = 0;    ///< from row to row in `in` or `out`; 0: read whole
};

struct Operand {
  Place place;
  DType dtype = DType::kF32;
  std::int64_t columns = 0;
  bool dense = true;
};

struct Instruction {
  RowFunction run = nullptr;
  RowOperation operation;
  std::vector<Operand> operands;
  Place result;
  std::int64_t row_bytes = 0;                 ///< of the result
  std::uint32_t stream = runtime::kNoOutput;  ///< output that is written afterwards, past the caches
};

/// Gives scratch memory to values, that of dead ones again.
class Scratch {
 public:
  std::int64_t take(std::int64_t bytes) {
    const auto fits = std::ranges::find_if(free_, [&](const Part& part) { return part.bytes == bytes; });
    if (fits == free_.end()) {
      const std::int64_t at = size_;
      size_ += bytes;
      return at;
    }
    const std::int64_t at = fits->at;
    free_.erase(fits);
    return at;
  }
  void give_back(std::int64_t at, std::int64_t bytes) { free_.push_back({at, bytes}); }
  std::int64_t size() const { return size_; }

 private:
  struct Part {
    std::int64_t at, bytes;
  };
  std::vector<Part> free_;
  std::int64_t size_ = 0;
};

class RowGroup final : public runtime::Kernel {
 public:
  explicit RowGroup(const GroupRequest& request) : rows_(request.rows), streams_(writes_much(request)) {
    find_last_uses(request);
    for (std::uint32_t i = 0; i < request.ops.size(); ++i) add(request, i);
    cut();
  }

  /// Bytes of one row that are kept at a time.
  std::int64_t kept_bytes() const { return scratch_.size(); }
  std::uint64_t workspace_bytes() const override {
    return static_cast<std::uint64_t>(slots_ * scratch_.size() * block_rows_);
  }

  Status run(const KernelArgs& args) override {
    for_blocks_balanced(ceil_div(rows_, task_rows_), slots_, [&](std::int64_t task, int slot) {
      std::byte* const scratch = args.workspace.pointer() + slot * scratch_.size() * block_rows_;
      std::vector<RowOperand> operands(most_operands_);
      const std::int64_t end = std::min((task + 1) * task_rows_, rows_);
      for (std::int64_t row = task * task_rows_; row < end; row += block_rows_)
        run_block(args, scratch, operands, row, std::min(block_rows_, end - row));
      if (streams_) finish_stream();
    });
    return ok();
  }

 private:
  /// The result of an operation.
  struct Kept {
    Place place;
    std::int64_t bytes = 0;      ///< of one row in scratch memory
    std::uint32_t last_use = 0;  ///< operation after which nobody reads it
  };

  static bool writes_much(const GroupRequest& request) {
    std::int64_t bytes = 0;
    for (const GroupOp& op : request.ops)
      if (op.output != runtime::kNoOutput) bytes += static_cast<std::int64_t>(op.op->out().bytes());
    return bytes > kStreamedBytes;
  }

  void find_last_uses(const GroupRequest& request) {
    results_.resize(request.ops.size());
    for (std::uint32_t i = 0; i < request.ops.size(); ++i) {
      results_[i].last_use = i;
      for (const runtime::GroupOperand& operand : request.ops[i].operands)
        if (operand.inside) results_[operand.index].last_use = i;
    }
  }

  void add(const GroupRequest& request, std::uint32_t index) {
    const GroupOp& source = request.ops[index];
    const ir::OpView& op = *source.op;
    if (reads_wide_part(source)) {
      const std::int64_t size = static_cast<std::int64_t>(dtype_size(op.out().dtype));
      results_[index].place = {Place::kInput, source.operands[0].index, op.i64("start") * size,
                               columns_of(op.in(0)) * size};
      has_parts_ = true;
      return;
    }
    Instruction instruction;
    instruction.operation = describe(op, rows_);
    instruction.run = entry_of(op.def())->rows();
    for (std::size_t i = 0; i < source.operands.size(); ++i)
      instruction.operands.push_back(operand_of(source, i));
    most_operands_ = std::max(most_operands_, source.operands.size());

    instruction.row_bytes = static_cast<std::int64_t>(op.out().bytes()) / rows_;
    if (source.output != runtime::kNoOutput && !streams_) {
      instruction.result = {Place::kOutput, source.output, 0, instruction.row_bytes};
    } else {
      Kept& result = results_[index];
      result.bytes =
          static_cast<std::int64_t>(align_up(static_cast<std::size_t>(instruction.row_bytes), kAlignment));
      instruction.result = {Place::kScratch, 0, scratch_.take(result.bytes), 0};
      instruction.stream = source.output;
    }
    results_[index].place = instruction.result;
    instructions_.push_back(std::move(instruction));
    for (Kept& kept : results_)
      if (kept.last_use == index && kept.bytes != 0) {
        scratch_.give_back(kept.place.offset, kept.bytes);
        kept.bytes = 0;
      }
  }

  /// A slice of an input that need not be copied: the rows of its operand are runs of elements.
  bool reads_wide_part(const GroupOp& source) const {
    const ir::OpView& op = *source.op;
    return op.def().row_rule == RowRule::kSlice && !source.operands[0].inside &&
           source.output == runtime::kNoOutput && columns_of(op.in(0)) * rows_ == op.in(0).numel() &&
           static_cast<std::int64_t>(op.out().bytes()) / rows_ >= kWidePart;
  }

  Operand operand_of(const GroupOp& source, std::size_t i) const {
    const runtime::GroupOperand& from = source.operands[i];
    const ir::TensorType& type = source.op->in(i);
    Operand operand;
    operand.dtype = type.dtype;
    operand.columns = columns_of(type);
    operand.dense = is_dense(*source.op, i);
    const std::int64_t row_bytes = static_cast<std::int64_t>(type.bytes()) / rows_;
    operand.place = from.inside ? results_[from.index].place
                                : Place{Place::kInput, from.index, 0, operand.dense ? row_bytes : 0};
    return operand;
  }

  void cut() {
    std::int64_t widest = 1, elements = 0;
    for (const Instruction& instruction : instructions_) {
      widest = std::max(widest, instruction.row_bytes);
      elements += instruction.operation.width;
    }
    block_rows_ =
        has_parts_ ? 1 : std::clamp<std::int64_t>(kNearBytes / std::max(scratch_.size(), widest), 1, rows_);
    task_rows_ = ceil_div(std::max<std::int64_t>(1, kTaskElements / elements), block_rows_) * block_rows_;
    slots_ = thread_count();
  }

  void run_block(const KernelArgs& args, std::byte* scratch, std::vector<RowOperand>& operands,
                 std::int64_t row, std::int64_t n_rows) const {
    const auto at = [&](const Place& place) {
      switch (place.kind) {
        case Place::kInput:
          return args.in[place.index].data<std::byte>() + row * place.step + place.offset;
        case Place::kOutput:
          return args.out[place.index].data<std::byte>() + row * place.step;
        default:
          return scratch + place.offset * block_rows_;
      }
    };
    for (const Instruction& instruction : instructions_) {
      for (std::size_t i = 0; i < instruction.operands.size(); ++i) {
        const Operand& operand = instruction.operands[i];
        operands[i] = {at(operand.place), operand.dtype, operand.dense, operand.columns};
      }
      std::byte* const result = at(instruction.result);
      instruction.run(
          {&instruction.operation, {operands.data(), instruction.operands.size()}, result, row, n_rows});
      if (instruction.stream != runtime::kNoOutput)
        stream_out(result, args.out[instruction.stream].data<std::byte>() + row * instruction.row_bytes,
                   static_cast<std::size_t>(n_rows * instruction.row_bytes));
    }
  }

  const std::int64_t rows_;
  const bool streams_;  ///< outputs are written from scratch memory, past the caches
  std::vector<Instruction> instructions_;
  std::vector<Kept> results_;  ///< per operation
  std::size_t most_operands_ = 0;
  bool has_parts_ = false;  ///< parts of rows are read where they are: one row at a time
  Scratch scratch_;         ///< of one row; every part is block_rows_ times as long
  std::int64_t block_rows_ = 1, task_rows_ = 1;
  int slots_ = 1;
};

}  // namespace

Status accepts_in_group(const ir::OpView& op) {
  if (entry_of(op.def()) == nullptr) return runtime::declined("{} has no form for rows", op.def().name);
  for (std::size_t i = 0; i < op.n_ins(); ++i)
    if (!ops::is_float(op.in(i).dtype))
      return runtime::declined("vectors of {} are not read", op.in(i).dtype);
  if (!ops::is_float(op.out().dtype))
    return runtime::declined("vectors of {} are not written", op.out().dtype);
  if (op.def().row_rule == RowRule::kHeads && 2 * op.in(1).dim(1) > kMostRotated)
    return runtime::declined("{} rotated dimensions > {}", 2 * op.in(1).dim(1), kMostRotated);
  return ok();
}

Result<std::unique_ptr<runtime::Kernel>> make_row_group(const GroupRequest& request) {
  auto group = std::make_unique<RowGroup>(request);
  if (group->kept_bytes() > kFarBytes)
    return runtime::declined("{} bytes of one row are more than a core keeps near, {}", group->kept_bytes(),
                             kFarBytes);
  return group;
}

}  // namespace dif::cpu
