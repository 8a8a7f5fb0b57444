#include "backends/cuda/row_steps.h"

#include "backends/cuda/kernels.h"
#include "ops/attention/attention.op.h"
#include "ops/linear/linear.op.h"

namespace dif::cuda {

namespace {

/// Whether runs are rows of `width` elements, or batches of `rows` of them.
bool of_rows_or_batches(const plan::Pitch& pitch, std::int64_t rows, std::int64_t width) {
  return pitch.run == width || pitch.run == rows * width;
}

bool in_whole_units(const plan::Pitch& pitch, DType dtype) {
  const auto element = static_cast<std::int64_t>(dtype_size(dtype));
  return pitch.run * element % 16 == 0 && pitch.pitch * element % 16 == 0;
}

bool suits(const ir::OpView& op, const ir::TensorType& type, const plan::Pitch& pitch) {
  if (!in_whole_units(pitch, type.dtype)) return false;
  if (&op.def() == &ops::kLinear)
    return type.rank() > 1 && of_rows_or_batches(pitch, type.dim(-2), type.dim(-1));
  if (&op.def() == &ops::kAttention) return of_rows_or_batches(pitch, type.dim(1), type.dim(2) * type.dim(3));
  // Alone, a slice or a concatenation is a copy of dense tensors.
  const ir::RowRule rule = op.def().row_rule;
  if (rule == ir::RowRule::kSlice || rule == ir::RowRule::kConcat) return false;
  return row_operation(op.def()) != nullptr && accept_in_group(op);
}

}  // namespace

bool reads_pitched(const ir::OpView& op, std::size_t operand, const plan::Pitch& pitch) {
  if (!suits(op, op.in(operand), pitch)) return false;
  if (&op.def() == &ops::kAttention) return operand < 3;
  switch (op.def().row_rule) {
    case ir::RowRule::kElementwise:  // not what is broadcast
      return op.in(operand).numel() == op.out().numel();
    default:
      return operand == 0;
  }
}

bool writes_pitched(const ir::OpView& op, const plan::Pitch& pitch) {
  return suits(op, op.out(), pitch);
}

}  // namespace dif::cuda
