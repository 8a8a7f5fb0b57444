#include "opt/axis_map.h"

#include <algorithm>

#include "ops/add/add.op.h"
#include "ops/add_scalar/add_scalar.op.h"
#include "ops/attention/attention.op.h"
#include "ops/cast/cast.op.h"
#include "ops/concat/concat.op.h"
#include "ops/conv2d/conv2d.op.h"
#include "ops/gather_rows/gather_rows.op.h"
#include "ops/group_norm/group_norm.op.h"
#include "ops/layer_norm/layer_norm.op.h"
#include "ops/linear/linear.op.h"
#include "ops/mul/mul.op.h"
#include "ops/mul_scalar/mul_scalar.op.h"
#include "ops/reshape/reshape.op.h"
#include "ops/rms_norm/rms_norm.op.h"
#include "ops/rotary/rotary.op.h"
#include "ops/silu/silu.op.h"
#include "ops/slice/slice.op.h"
#include "ops/sqrt/sqrt.op.h"
#include "ops/sub/sub.op.h"
#include "ops/timestep_embedding/timestep_embedding.op.h"
#include "ops/transpose/transpose.op.h"
#include "ops/upsample_nearest/upsample_nearest.op.h"

namespace dif::opt {

namespace {

using Found = std::optional<AxisMap>;
using ir::OpView;

/// Operand 0 goes along on `axis`, the others are needed whole.
AxisMap first_operand(const OpView& op, int axis) {
  AxisMap map;
  map.operand_axes.resize(op.n_ins());
  map.operand_axes[0] = axis;
  return map;
}

Found unary(const OpView& op, int axis) {
  return first_operand(op, axis);
}

/// Right-aligned; an operand that repeats along the axis is needed whole.
Found broadcasting(const OpView& op, int axis) {
  AxisMap map;
  for (std::size_t i = 0; i < op.n_ins(); ++i) {
    const int own = axis - (op.out().rank() - op.in(i).rank());
    const bool goes_along = own >= 0 && op.in(i).dim(own) == op.out().dim(axis);
    map.operand_axes.push_back(goes_along ? std::optional(own) : std::nullopt);
  }
  return map;
}

/// The operand's axis with the same size and as many elements before it.
Found of_reshape(const OpView& op, int axis) {
  const auto before = [](const ir::TensorType& type, int end) {
    std::int64_t product = 1;
    for (int i = 0; i < end; ++i) product *= type.dim(i);
    return product;
  };
  if (op.out().numel() == 0) return {};
  for (int i = 0; i < op.in(0).rank(); ++i)
    if (op.in(0).dim(i) == op.out().dim(axis) && before(op.in(0), i) == before(op.out(), axis))
      return first_operand(op, i);
  return {};
}

Found of_transpose(const OpView& op, int axis) {
  return first_operand(op, static_cast<int>(op.i64s("perm")[static_cast<std::size_t>(axis)]));
}

Found of_slice(const OpView& op, int axis) {
  if (axis == op.i64("axis")) return {};
  return first_operand(op, axis);
}

Found of_concat(const OpView& op, int axis) {
  if (axis == op.i64("axis")) return {};
  AxisMap map;
  map.operand_axes.assign(op.n_ins(), axis);
  return map;
}

Found of_gather_rows(const OpView& op, int axis) {
  const int n_ids = op.in(1).rank();
  AxisMap map;
  map.operand_axes.resize(2);
  if (axis < n_ids)
    map.operand_axes[1] = axis;
  else
    map.operand_axes[0] = axis - n_ids + 1;
  return map;
}

/// Rows go with x, columns with the rows of w and the bias.
Found of_linear(const OpView& op, int axis) {
  if (axis != op.out().rank() - 1) return first_operand(op, axis);
  AxisMap map;
  map.operand_axes.assign(op.n_ins(), 0);
  map.operand_axes[0] = {};
  return map;
}

Found of_row_norm(const OpView& op, int axis) {
  if (axis == op.out().rank() - 1) return {};
  return first_operand(op, axis);
}

Found of_first_axis(const OpView& op, int axis) {
  if (axis != 0) return {};
  return first_operand(op, axis);
}

Found of_rotary(const OpView& op, int axis) {
  if (axis == 3) return {};
  AxisMap map = first_operand(op, axis);
  if (axis == 1) map.operand_axes[1] = map.operand_axes[2] = 0;
  return map;
}

/// Batches are apart, queries are apart unless they are counted, heads are apart, and so are the columns of
/// v.
Found of_attention(const OpView& op, int axis) {
  AxisMap map;
  map.operand_axes.resize(op.n_ins());
  switch (axis) {
    case 0:
      map.operand_axes.assign(op.n_ins(), 0);
      return map;
    case 1:
      if (op.flag("causal")) return {};
      map.operand_axes[0] = 1;
      return map;
    case 2:
      if (op.in(0).dim(2) != op.in(1).dim(2)) return {};
      map.operand_axes[0] = map.operand_axes[1] = map.operand_axes[2] = 2;
      return map;
    default:
      map.operand_axes[2] = 3;
      return map;
  }
}

Found of_conv2d(const OpView& op, int axis) {
  if (axis == 0) return first_operand(op, axis);
  const int channels = op.flag("channels_last") ? 3 : 1;
  if (axis != channels || op.i64("groups") != 1) return {};
  AxisMap map;
  map.operand_axes.assign(op.n_ins(), 0);
  map.operand_axes[0] = {};
  return map;
}

/// Images are apart, and so are channels.
Found of_upsample(const OpView& op, int axis) {
  const int channels = op.flag("channels_last") ? 3 : 1;
  if (axis != 0 && axis != channels) return {};
  return first_operand(op, axis);
}

struct Entry {
  const ir::OpDef* def;
  Found (*map)(const OpView& op, int axis);
};

constexpr Entry kEntries[] = {
    {&ops::kAdd, broadcasting},
    {&ops::kSub, broadcasting},
    {&ops::kMul, broadcasting},
    {&ops::kAddScalar, unary},
    {&ops::kMulScalar, unary},
    {&ops::kSilu, unary},
    {&ops::kSqrt, unary},
    {&ops::kCast, unary},
    {&ops::kReshape, of_reshape},
    {&ops::kTranspose, of_transpose},
    {&ops::kSlice, of_slice},
    {&ops::kConcat, of_concat},
    {&ops::kGatherRows, of_gather_rows},
    {&ops::kLinear, of_linear},
    {&ops::kRmsNorm, of_row_norm},
    {&ops::kLayerNorm, of_row_norm},
    {&ops::kGroupNorm, of_first_axis},
    {&ops::kRotary, of_rotary},
    {&ops::kAttention, of_attention},
    {&ops::kConv2d, of_conv2d},
    {&ops::kUpsampleNearest, of_upsample},
    {&ops::kTimestepEmbedding, of_first_axis},
};

}  // namespace

std::optional<AxisMap> axis_map(const OpView& op, int axis) {
  const auto* entry = std::ranges::find(kEntries, &op.def(), &Entry::def);
  if (entry == std::end(kEntries)) return {};
  return entry->map(op, axis);
}

}  // namespace dif::opt
