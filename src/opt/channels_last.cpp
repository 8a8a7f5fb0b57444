#include <algorithm>

#include "ops/add/add.op.h"
#include "ops/add_scalar/add_scalar.op.h"
#include "ops/cast/cast.op.h"
#include "ops/conv2d/conv2d.op.h"
#include "ops/group_norm/group_norm.op.h"
#include "ops/mul/mul.op.h"
#include "ops/mul_scalar/mul_scalar.op.h"
#include "ops/reshape/reshape.op.h"
#include "ops/silu/silu.op.h"
#include "ops/sqrt/sqrt.op.h"
#include "ops/sub/sub.op.h"
#include "ops/transpose/transpose.op.h"
#include "ops/upsample_nearest/upsample_nearest.op.h"
#include "opt/names.h"
#include "opt/pass.h"

namespace dif::opt {

namespace {

using ir::OpId;
using ir::ValueId;

/// Operations whose result has the layout of their operands.
constexpr const ir::OpDef* kElementwise[] = {&ops::kAdd,       &ops::kSub,  &ops::kMul,  &ops::kAddScalar,
                                             &ops::kMulScalar, &ops::kSilu, &ops::kSqrt, &ops::kCast};

/// So many views may stand between a value and the transpose that it comes from.
constexpr int kMostViews = 4;

/// Axes of [N, ..., C] in the order of [N, C, ...].
std::vector<std::int64_t> to_first(int rank) {
  std::vector<std::int64_t> perm = {0, rank - 1};
  for (int axis = 1; axis < rank - 1; ++axis) perm.push_back(axis);
  return perm;
}

/// Axes of [N, C, ...] in the order of [N, ..., C].
std::vector<std::int64_t> to_last(int rank) {
  std::vector<std::int64_t> perm = {0};
  for (int axis = 2; axis < rank; ++axis) perm.push_back(axis);
  perm.push_back(1);
  return perm;
}

/// Gives operations channels-last operands, and what reads their results a transpose of those. Where two
/// rewritten operations follow each other, the second takes what the first made, and the transpose in between
/// is read by nobody.
class Rewriter {
 public:
  Rewriter(Editor& editor, Decisions& decisions) : editor_(editor), decisions_(decisions) {}

  Status run() {
    const auto is_conv = [&](OpId id) { return editor_.op(id).def == &ops::kConv2d; };
    if (!std::ranges::any_of(editor_.order(), is_conv)) return ok();
    for (const OpId id : editor_.order())
      if (editor_.is_alive(id) && wins(id)) DIF_TRY(rewrite(id));
    return ok();
  }

 private:
  /// A convolution always; the others where their operands are there already.
  bool wins(OpId id) const {
    const ir::Op& op = editor_.op(id);
    if (editor_.is_constant(op.results[0])) return false;
    if (op.def == &ops::kConv2d) return !channels_last(op);
    const bool image = op.def == &ops::kGroupNorm || op.def == &ops::kUpsampleNearest;
    if (image) return !channels_last(op) && comes_last(op.operands[0]);
    if (std::ranges::find(kElementwise, op.def) == std::end(kElementwise)) return false;
    return std::ranges::all_of(op.operands, [&](ValueId operand) {
      return editor_.type(operand).shape == editor_.type(op.results[0]).shape && comes_last(operand);
    });
  }

  static bool channels_last(const ir::Op& op) { return std::get<bool>(op.attrs.back()); }

  /// Whether a value [N, C, ...] is [N, ..., C] with its axes moved, perhaps seen through views.
  bool comes_last(ValueId value, int depth = 0) const {
    const ir::Op* op = editor_.producer(value);
    const int rank = editor_.type(value).rank();
    if (op == nullptr || rank < 3) return false;
    if (op->def == &ops::kTranspose) return op->attrs[0] == ir::Attr(to_first(rank));
    if (op->def != &ops::kReshape || depth == kMostViews) return false;
    const ir::TensorType &from = editor_.type(op->operands[0]), &to = editor_.type(value);
    return from.rank() >= 3 && from.dim(0) == to.dim(0) && from.dim(1) == to.dim(1) &&
           comes_last(op->operands[0], depth + 1);
  }

  /// The value with channels last.
  Result<ValueId> last(OpId before, ValueId value) {
    const int rank = editor_.type(value).rank();
    if (!comes_last(value)) return editor_.emit(before, ops::kTranspose, {value}, {to_last(rank)});
    const ir::Op& op = *editor_.producer(value);
    if (op.def == &ops::kTranspose) return op.operands[0];
    const Shape& shape = editor_.type(value).shape;
    std::vector<std::int64_t> dims = {shape.dim(0)};
    for (int axis = 2; axis < rank; ++axis) dims.push_back(shape.dim(axis));
    dims.push_back(shape.dim(1));
    DIF_ASSIGN(const ValueId from, last(before, op.operands[0]));
    return editor_.emit(before, ops::kReshape, {from}, {std::move(dims)});
  }

  Status rewrite(OpId id) {
    const ir::Op op = editor_.op(id);
    const bool elementwise = std::ranges::find(kElementwise, op.def) != std::end(kElementwise);
    std::vector<ValueId> operands = op.operands;
    for (std::size_t i = 0; i < operands.size(); ++i)
      if (elementwise || i == 0 || (i == 1 && op.def == &ops::kConv2d)) {
        DIF_ASSIGN(operands[i], last(id, operands[i]));
      }
    std::vector<ir::Attr> attrs = op.attrs;
    if (!elementwise) attrs.back() = true;
    DIF_ASSIGN(const ValueId made, editor_.emit(id, *op.def, std::move(operands), std::move(attrs)));
    const int rank = editor_.type(made).rank();
    DIF_ASSIGN(const ValueId seen, editor_.emit(id, ops::kTranspose, {made}, {to_first(rank)}));
    if (op.def == &ops::kConv2d)
      decisions_.push_back({"", subject_of(editor_.program(), id), "rewritten", "channels last"});
    editor_.replace(op.results[0], seen);
    return ok();
  }

  Editor& editor_;
  Decisions& decisions_;
};

Status put_channels_last(Editor& editor, Decisions& decisions) {
  return Rewriter(editor, decisions).run();
}

}  // namespace

const Pass kChannelsLast = {
    .name = "channels_last",
    .summary = "Let convolutions and what stands between them work on images with channels last.",
    .function = put_channels_last,
};

}  // namespace dif::opt
