#include "ops/rms_norm/rms_norm.op.h"

#include <cmath>

#include "ops/common/checks.h"

namespace dif::ops {

const ir::OpDef kRmsNorm = {
    .name = "rms_norm",
    .operands = {{"x"}, {"w", ir::Arity::kOptional}},
    .attrs = {{"eps", 1e-6f}},
    .verify = [](const ir::OpView& op) -> Status {
      const ir::TensorType& x = op.in(0);
      if (x.rank() < 1 || x.dim(-1) < 1) return op.broken("C1", "x is {}, needed is [..., C] with C >= 1", x);
      if (op.has(1) && op.in(1).shape != Shape{x.dim(-1)})
        return op.broken("C2", "w is {}, rows of x are {} wide", op.in(1).shape, x.dim(-1));
      if (!is_float(x.dtype)) return op.broken("C3", "x is {}, needed is f32, bf16 or f16", x.dtype);
      if (op.has(1) && op.in(1).dtype != x.dtype)
        return op.broken("C3", "w is {}, x is {}", op.in(1).dtype, x.dtype);
      if (const float eps = op.f32("eps"); !std::isfinite(eps) || eps < 0)
        return op.broken("C4", "eps is {}", eps);
      return ok();
    },
    .infer = infer_same,
    .flops = [](const ir::OpView& op) { return elements(op.out()) * (op.has(1) ? 4 : 3); },
    .row_rule = ir::RowRule::kLastAxis,
};

Value rms_norm(Builder& b, Value x, std::optional<Value> w, float eps) {
  std::vector<Value> operands = {x};
  if (w) operands.push_back(*w);
  return b.emit(kRmsNorm, operands, {eps});
}

}  // namespace dif::ops
