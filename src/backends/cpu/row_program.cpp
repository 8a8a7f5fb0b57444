#include "backends/cpu/row_program.h"

#include <algorithm>

#include "backends/cpu/traffic.h"
#include "base/checked_math.h"
#include "ops/add/add.op.h"
#include "ops/add_scalar/add_scalar.op.h"
#include "ops/cast/cast.op.h"
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

using ir::RowRule;
using runtime::GroupOp;
using runtime::GroupRequest;
using runtime::kNoOutput;

namespace {

/// Bytes of a row's part that are read where they are: shorter ones are copied together for several rows.
constexpr std::int64_t kWidePart = 4 << 10;
constexpr std::size_t kAlignment = 64;

constexpr RowForm kForms[] = {
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

std::int64_t columns_of(const ir::TensorType& type) {
  return type.rank() == 0 ? 1 : type.dim(-1);
}

std::int64_t bytes_of(const ir::TensorType& type) {
  return static_cast<std::int64_t>(type.bytes());
}

std::int64_t size_of(DType dtype) {
  return static_cast<std::int64_t>(dtype_size(dtype));
}

bool is_elementwise(const GroupOp& source) {
  return source.op->def().row_rule == RowRule::kElementwise;
}

bool can_write_past_caches(const GroupOp& source) {
  const RowRule rule = source.op->def().row_rule;
  return rule != RowRule::kSlice && rule != RowRule::kConcat;
}

/// Bytes of one element of the operand or result that has the widest.
std::int64_t widest_element(const ir::OpView& op) {
  std::int64_t widest = size_of(op.out().dtype);
  for (std::size_t i = 0; i < op.n_ins(); ++i) widest = std::max(widest, size_of(op.in(i).dtype));
  return widest;
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
  if (const char* scalar = row_form_of(op.def())->scalar) result.value = op.f32(scalar);
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

}  // namespace

const RowForm* row_form_of(const ir::OpDef& op) {
  const auto found = std::ranges::find(kForms, &op, &RowForm::op);
  return found == std::end(kForms) ? nullptr : found;
}

std::int64_t RowProgram::Scratch::take(std::int64_t bytes) {
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

RowProgram::RowProgram(const GroupRequest& request) : rows_(request.rows) {
  find_values(request);
  find_reads(request);
  for (std::uint32_t i = 0; i < request.ops.size(); ++i) add(request, i);
}

void RowProgram::find_values(const GroupRequest& request) {
  values_.resize(request.ops.size());
  std::uint32_t segment = 0;
  std::int64_t width = 0;  // of the open segment; 0: there is none
  for (std::uint32_t i = 0; i < request.ops.size(); ++i) {
    const GroupOp& source = request.ops[i];
    Value& value = values_[i];
    value.last_use = i;
    value.is_part = is_wide_part(source);
    for (const runtime::GroupOperand& operand : source.operands)
      if (operand.inside) values_[operand.index].last_use = i;
    if (value.is_part) {
      const ir::OpView& op = *source.op;
      const std::int64_t size = size_of(op.out().dtype);
      value.place = {Place::kInput, source.operands[0].index, op.i64("start") * size,
                     columns_of(op.in(0)) * size};
      one_row_at_a_time_ = true;
      continue;
    }
    const std::int64_t width_here = is_elementwise(source) ? source.op->out().numel() / rows_ : 0;
    if (width_here == 0 || width_here != width) ++segment;
    width = width_here;
    value.segment = segment;
  }
}

void RowProgram::find_reads(const GroupRequest& request) {
  for (std::uint32_t index = 0; index < request.ops.size(); ++index) {
    const GroupOp& source = request.ops[index];
    if (source.output != kNoOutput) moved_bytes_ += bytes_of(source.op->out());
    if (values_[index].is_part) continue;
    for (std::size_t i = 0; i < source.operands.size(); ++i) {
      const Place place = operand_of(source, i).place;
      if (place.kind != Place::kInput || place.step == 0) continue;
      const RowPart part = {place.index, place.offset, place.step, bytes_of(source.op->in(i)) / rows_};
      if (std::ranges::find(reads_, part) != reads_.end()) continue;
      reads_.push_back(part);
      moved_bytes_ += part.bytes * rows_;
    }
  }
  writes_past_caches_ = moved_bytes_ > kPastCachesBytes;
}

void RowProgram::add(const GroupRequest& request, std::uint32_t index) {
  const GroupOp& source = request.ops[index];
  const ir::OpView& op = *source.op;
  const Value& value = values_[index];
  if (value.is_part) return;
  RowInstruction instruction;
  instruction.operation = describe(op, rows_);
  instruction.run = row_form_of(op.def())->rows();
  for (std::size_t i = 0; i < source.operands.size(); ++i)
    instruction.operands.push_back(operand_of(source, i));
  most_operands_ = std::max(most_operands_, source.operands.size());
  widest_bytes_ = std::max(widest_bytes_, bytes_of(op.out()) / rows_);
  row_elements_ += instruction.operation.width;

  place_result(source, index, instruction);
  if (value.segment != open_segment_)
    segments_.push_back(
        {instructions_.size(), 0, instruction.operation.width, is_elementwise(source) ? tile_size() : 0});
  open_segment_ = value.segment;
  instructions_.push_back(std::move(instruction));
  RowSegment& segment = segments_.back();
  segment.end = instructions_.size();
  segment.tile = std::min(segment.tile, tile_size() / widest_element(op));
  give_back_after(index);
}

/// A slice of an input that need not be copied: the rows of its operand are runs of elements.
bool RowProgram::is_wide_part(const GroupOp& source) const {
  const ir::OpView& op = *source.op;
  return op.def().row_rule == RowRule::kSlice && !source.operands[0].inside && source.output == kNoOutput &&
         columns_of(op.in(0)) * rows_ == op.in(0).numel() && bytes_of(op.out()) / rows_ >= kWidePart;
}

RowInstruction::Operand RowProgram::operand_of(const GroupOp& source, std::size_t i) const {
  const runtime::GroupOperand& from = source.operands[i];
  const ir::TensorType& type = source.op->in(i);
  RowInstruction::Operand operand;
  operand.dtype = type.dtype;
  operand.columns = columns_of(type);
  operand.dense = is_dense(*source.op, i);
  operand.place = from.inside
                      ? values_[from.index].place
                      : Place{Place::kInput, from.index, 0, operand.dense ? bytes_of(type) / rows_ : 0};
  return operand;
}

void RowProgram::place_result(const GroupOp& source, std::uint32_t index, RowInstruction& instruction) {
  Value& value = values_[index];
  const std::int64_t row_bytes = bytes_of(source.op->out()) / rows_;
  const bool is_read = value.last_use != index;
  if (source.output != kNoOutput && (!writes_past_caches_ || (!is_read && can_write_past_caches(source)))) {
    value.place = {Place::kOutput, source.output, 0, row_bytes};
    instruction.past_caches = writes_past_caches_;
  } else {
    instruction.copied_to = source.output;
    const bool in_tiles = is_elementwise(source) && values_[value.last_use].segment == value.segment;
    const std::int64_t bytes = in_tiles ? tile_size() : row_bytes;
    value.bytes = static_cast<std::int64_t>(align_up(static_cast<std::size_t>(bytes), kAlignment));
    value.place = in_tiles ? Place{Place::kTile, 0, tile_scratch_.take(value.bytes), 0}
                           : Place{Place::kRows, 0, row_scratch_.take(value.bytes), row_bytes};
  }
  instruction.result = value.place;
}

void RowProgram::give_back_after(std::uint32_t index) {
  for (Value& value : values_) {
    if (value.last_use != index || value.bytes == 0) continue;
    (value.place.kind == Place::kTile ? tile_scratch_ : row_scratch_)
        .give_back(value.place.offset, value.bytes);
    value.bytes = 0;
  }
}

}  // namespace dif::cpu
