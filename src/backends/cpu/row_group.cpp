#include "backends/cpu/row_group.h"

#include <algorithm>
#include <vector>

#include "backends/cpu/convert.h"
#include "backends/cpu/host_buffer.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/row_operation.h"
#include "backends/cpu/storage.h"
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

/// Floats that a core keeps in its first cache beside what streams past, and in its second.
constexpr std::int64_t kNearFloats = 5 << 10, kFarFloats = 192 << 10;
/// Results of one task, in elements: enough that threads meet rarely.
constexpr std::int64_t kTaskElements = 4 * kBlockElements;
constexpr std::size_t kFloatAlignment = 16;

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

/// Where the f32 numbers of an operand or a result are.
struct Place {
  enum Kind { kScratch, kInput, kOutput, kWhole };
  Kind kind = kScratch;
  std::uint32_t index = 0;  ///< of the kernel's `in` or `out`
  std::int64_t offset = 0;  ///< kScratch: floats per row in front of it; kWhole: floats in front of it
};

/// Rows of an input in another dtype on their way into scratch memory.
struct Load {
  std::uint32_t input = 0;
  DType dtype = DType::kF32;
  std::int64_t width = 0;                         ///< elements of a row
  std::int64_t step = 0, first = 0, columns = 0;  ///< of each `step` elements, `columns` from `first` on
  Place to;
};

struct Operand {
  Place place;
  std::int64_t width = 0;  ///< elements of a row, when dense
  std::int64_t columns = 0;
  bool dense = true;
};

struct Instruction {
  RowFunction run = nullptr;  ///< null: the loads are all of it
  RowOperation operation;
  std::vector<Load> loads;  ///< before it
  std::vector<Operand> operands;
  Place result;
  std::uint32_t store = runtime::kNoOutput;  ///< output of another dtype than f32, written afterwards
};

/// Gives scratch memory to values, that of dead ones again.
class Scratch {
 public:
  std::int64_t take(std::int64_t width) {
    const auto fits = std::ranges::find_if(free_, [&](const Part& part) { return part.width == width; });
    if (fits == free_.end()) {
      const std::int64_t at = size_;
      size_ += width;
      return at;
    }
    const std::int64_t at = fits->at;
    free_.erase(fits);
    return at;
  }
  void give_back(std::int64_t at, std::int64_t width) { free_.push_back({at, width}); }
  std::int64_t size() const { return size_; }

 private:
  struct Part {
    std::int64_t at, width;
  };
  std::vector<Part> free_;
  std::int64_t size_ = 0;
};

/// An operand that is read whole, in f32.
struct Whole {
  std::uint32_t input = 0;
  DType dtype = DType::kF32;
  std::int64_t n = 0, offset = 0;
};

class RowGroup final : public runtime::Kernel {
 public:
  explicit RowGroup(const GroupRequest& request) : rows_(request.rows) {
    find_last_uses(request);
    for (std::uint32_t i = 0; i < request.ops.size(); ++i) add(request, i);
    cut();
  }

  /// Floats of one row that are kept at a time.
  std::int64_t row_floats() const { return scratch_.size(); }
  std::uint64_t workspace_bytes() const override { return workspace_bytes_; }

  Status run(const KernelArgs& args) override {
    float* const workspace = reinterpret_cast<float*>(args.workspace.pointer());
    for (const Whole& whole : wholes_)
      convert(whole.dtype, args.in[whole.input].data<void>(), DType::kF32, workspace + whole.offset, whole.n);
    for_blocks_balanced(ceil_div(rows_, task_rows_), slots_, [&](std::int64_t task, int slot) {
      float* const scratch = workspace + whole_floats_ + slot * slot_floats_;
      std::vector<RowOperand> operands(most_operands_);
      const std::int64_t end = std::min((task + 1) * task_rows_, rows_);
      for (std::int64_t row = task * task_rows_; row < end; row += block_rows_)
        run_block(args, workspace, scratch, operands, row, std::min(block_rows_, end - row));
    });
    return ok();
  }

 private:
  /// A value of the group: the result of an operation, or rows of an input in another dtype.
  struct Kept {
    Place place;
    std::int64_t width = 0;
    std::uint32_t last_use = 0;  ///< operation after which nobody reads it
  };

  void find_last_uses(const GroupRequest& request) {
    results_.resize(request.ops.size());
    loaded_.resize(request.constants.size());
    for (std::uint32_t i = 0; i < request.ops.size(); ++i) {
      results_[i].last_use = i;
      for (const runtime::GroupOperand& operand : request.ops[i].operands) {
        auto& kept = operand.inside ? results_[operand.index] : loaded_[operand.index];
        kept.last_use = i;
      }
    }
  }

  void add(const GroupRequest& request, std::uint32_t index) {
    const GroupOp& source = request.ops[index];
    const ir::OpView& op = *source.op;
    Instruction instruction;
    instruction.operation = describe(op, rows_);
    const bool is_load = loads_part(source);
    if (!is_load) {
      instruction.run = entry_of(op.def())->rows();
      for (std::size_t i = 0; i < source.operands.size(); ++i)
        instruction.operands.push_back(operand_of(source, i, instruction.loads));
      most_operands_ = std::max(most_operands_, source.operands.size());
    }

    Kept& result = results_[index];
    result.width = instruction.operation.width;
    if (source.output != runtime::kNoOutput && op.out().dtype == DType::kF32) {
      result.place = {Place::kOutput, source.output, 0};
    } else {
      result.place = {Place::kScratch, 0, scratch_.take(result.width)};
      instruction.store = source.output;
    }
    instruction.result = result.place;
    if (is_load)
      instruction.loads.push_back({source.operands[0].index, op.out().dtype, op.in(0).numel() / rows_,
                                   columns_of(op.in(0)), instruction.operation.first_column,
                                   instruction.operation.columns, result.place});
    instructions_.push_back(std::move(instruction));
    for (auto* list : {&results_, &loaded_})
      for (Kept& kept : *list)
        if (kept.last_use == index && kept.width != 0 && kept.place.kind == Place::kScratch) {
          scratch_.give_back(kept.place.offset, kept.width);
          kept.width = 0;
        }
  }

  /// A slice of an input in another dtype than f32: only the part is converted.
  static bool loads_part(const GroupOp& source) {
    return source.op->def().row_rule == RowRule::kSlice && !source.operands[0].inside &&
           source.op->in(0).dtype != DType::kF32;
  }

  Operand operand_of(const GroupOp& source, std::size_t i, std::vector<Load>& loads) {
    const ir::OpView& op = *source.op;
    const runtime::GroupOperand& from = source.operands[i];
    const ir::TensorType& type = op.in(i);
    Operand operand;
    operand.dense = is_dense(op, i);
    operand.columns = columns_of(type);
    if (operand.dense) operand.width = type.numel() / rows_;
    if (from.inside) {
      operand.place = results_[from.index].place;
    } else if (type.dtype == DType::kF32) {
      operand.place = {Place::kInput, from.index, 0};
    } else if (operand.dense) {
      Kept& kept = loaded_[from.index];
      if (kept.width == 0) {
        kept.width = operand.width;
        kept.place = {Place::kScratch, 0, scratch_.take(operand.width)};
        loads.push_back({from.index, type.dtype, operand.width, operand.width, 0, operand.width, kept.place});
      }
      operand.place = kept.place;
    } else {
      operand.place = {Place::kWhole, 0, whole_of(from.index, type)};
    }
    return operand;
  }

  std::int64_t whole_of(std::uint32_t input, const ir::TensorType& type) {
    for (const Whole& whole : wholes_)
      if (whole.input == input) return whole.offset;
    wholes_.push_back({input, type.dtype, type.numel(), whole_floats_});
    whole_floats_ +=
        static_cast<std::int64_t>(align_up(static_cast<std::size_t>(type.numel()), kFloatAlignment));
    return wholes_.back().offset;
  }

  void cut() {
    std::int64_t widest = 1, elements = 0;
    for (const Instruction& instruction : instructions_) {
      widest = std::max(widest, instruction.operation.width);
      elements += instruction.operation.width;
    }
    block_rows_ = std::clamp<std::int64_t>(kNearFloats / std::max(scratch_.size(), widest), 1, rows_);
    task_rows_ = ceil_div(std::max<std::int64_t>(1, kTaskElements / elements), block_rows_) * block_rows_;
    slots_ = thread_count();
    slot_floats_ = static_cast<std::int64_t>(
        align_up(static_cast<std::size_t>(scratch_.size() * block_rows_), kFloatAlignment));
    workspace_bytes_ = static_cast<std::uint64_t>(whole_floats_ + slots_ * slot_floats_) * sizeof(float);
  }

  void run_block(const KernelArgs& args, float* wholes, float* scratch, std::vector<RowOperand>& operands,
                 std::int64_t row, std::int64_t n_rows) const {
    const auto at = [&](const Place& place, std::int64_t width) {
      switch (place.kind) {
        case Place::kScratch:
          return scratch + place.offset * block_rows_;
        case Place::kInput:
          return args.in[place.index].data<float>() + row * width;
        case Place::kOutput:
          return args.out[place.index].data<float>() + row * width;
        default:
          return wholes + place.offset;
      }
    };
    for (const Instruction& instruction : instructions_) {
      for (const Load& load : instruction.loads) {
        const std::size_t size = dtype_size(load.dtype);
        const std::byte* from = args.in[load.input].data<std::byte>() +
                                static_cast<std::size_t>(row * load.width + load.first) * size;
        float* to = at(load.to, 0);
        const bool whole = load.columns == load.step;
        const std::int64_t lines = whole ? 1 : n_rows * load.width / load.step;
        const std::int64_t n = whole ? n_rows * load.width : load.columns;
        for (std::int64_t line = 0; line < lines;
             ++line, from += static_cast<std::size_t>(load.step) * size, to += n)
          convert_here(load.dtype, from, DType::kF32, to, n);
      }
      for (std::size_t i = 0; i < instruction.operands.size(); ++i) {
        const Operand& operand = instruction.operands[i];
        operands[i] = {at(operand.place, operand.width), operand.dense, operand.columns};
      }
      const RowOperation& operation = instruction.operation;
      float* const result = at(instruction.result, operation.width);
      if (instruction.run != nullptr)
        instruction.run({&operation, {operands.data(), instruction.operands.size()}, result, row, n_rows});
      if (instruction.store == runtime::kNoOutput) continue;
      const auto first = static_cast<std::size_t>(row * operation.width) * dtype_size(operation.dtype);
      store_here(result, operation.dtype, args.out[instruction.store].data<std::byte>() + first,
                 n_rows * operation.width);
    }
  }

  const std::int64_t rows_;
  std::vector<Instruction> instructions_;
  std::vector<Kept> results_;  ///< per operation
  std::vector<Kept> loaded_;   ///< per input
  std::vector<Whole> wholes_;
  std::size_t most_operands_ = 0;
  Scratch scratch_;  ///< of one row; every part is block_rows_ times as long
  std::int64_t block_rows_ = 1, task_rows_ = 1, slot_floats_ = 0, whole_floats_ = 0;
  int slots_ = 1;
  std::uint64_t workspace_bytes_ = 0;
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
  if (group->row_floats() > kFarFloats)
    return runtime::declined("{} numbers of one row are more than a core keeps near, {}", group->row_floats(),
                             kFarFloats);
  return group;
}

}  // namespace dif::cpu
