#include "ops/group_norm/group_norm.op.h"

#include <cmath>

#include "ops/common/checks.h"

namespace dif::ops {

const ir::OpDef kGroupNorm = {
    .name = "group_norm",
    .operands = {{"x"}, {"w"}, {"bias"}},
    .attrs = {{"eps", 1e-5f}, {"groups", std::int64_t{1}}},
    .verify = [](const ir::OpView& op) -> Status {
      const ir::TensorType& x = op.in(0);
      const std::int64_t groups = op.i64("groups");
      if (x.rank() < 2) return op.broken("C1", "x is {}, needed is [N, C, ...]", x);
      if (groups < 1 || x.dim(1) % groups != 0)
        return op.broken("C2", "{} groups do not divide {} channels", groups, x.dim(1));
      for (std::size_t i = 1; i < 3; ++i)
        if (op.in(i).shape != Shape{x.dim(1)})
          return op.broken("C3", "{} is {}, x has {} channels", op.def().operands[i].name, op.in(i).shape,
                           x.dim(1));
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

Value group_norm(Builder& b, Value x, Value w, Value bias, std::int64_t groups, float eps) {
  return b.emit(kGroupNorm, {x, w, bias}, {eps, groups});
}

}  // namespace dif::ops
