#include "ops/group_norm/group_norm.op.h"

#include <cmath>

#include "ops/common/checks.h"

namespace dif::ops {

namespace {

int channel_axis(const ir::OpView& op) {
  return op.flag("channels_last") ? op.in(0).rank() - 1 : 1;
}

}  // namespace

const ir::OpDef kGroupNorm = {
    .name = "group_norm",
    .operands = {{"x"}, {"w"}, {"bias"}},
    .attrs = {{"eps", 1e-5f}, {"groups", std::int64_t{1}}, {"channels_last", false, /*optional=*/true}},
    .verify = [](const ir::OpView& op) -> Status {
      const ir::TensorType& x = op.in(0);
      const std::int64_t groups = op.i64("groups");
      if (x.rank() < 2) return op.broken("C1", "x is {}, needed is [N, C, ...]", x);
      const std::int64_t channels = x.dim(channel_axis(op));
      if (groups < 1 || channels % groups != 0)
        return op.broken("C2", "{} groups do not divide {} channels", groups, channels);
      for (std::size_t i = 1; i < 3; ++i)
        if (op.in(i).shape != Shape{channels})
          return op.broken("C3", "{} is {}, x has {} channels", op.def().operands[i].name, op.in(i).shape,
                           channels);
      if (!is_float(x.dtype)) return op.broken("C4", "x is {}, needed is f32, bf16 or f16", x.dtype);
      for (std::size_t i = 1; i < 3; ++i)
        if (op.in(i).dtype != x.dtype)
          return op.broken("C4", "{} is {}, x is {}", op.def().operands[i].name, op.in(i).dtype, x.dtype);
      if (const float eps = op.f32("eps"); !std::isfinite(eps) || eps < 0)
        return op.broken("C5", "eps is {}", eps);
      return ok();
    },
    .infer = infer_same,
    .flops = [](const ir::OpView& op) { return elements(op.out()) * 7; },
};

Value group_norm(Builder& b, Value x, Value w, Value bias, std::int64_t groups, float eps,
                 bool channels_last) {
  return b.emit(kGroupNorm, {x, w, bias}, {eps, groups, channels_last});
}

GroupNormSizes group_norm_sizes(const ir::OpView& op) {
  const Shape& shape = op.in(0).shape;
  GroupNormSizes sizes = {shape.dim(0), shape.dim(channel_axis(op)), 1, op.i64("groups"),
                          op.flag("channels_last")};
  for (int axis = 1; axis < shape.rank(); ++axis)
    if (axis != channel_axis(op)) sizes.positions *= shape.dim(axis);
  return sizes;
}

}  // namespace dif::ops
