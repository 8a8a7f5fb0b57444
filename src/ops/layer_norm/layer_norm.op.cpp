#include "ops/layer_norm/layer_norm.op.h"

#include <cmath>

#include "ops/common/checks.h"

namespace dif::ops {

const ir::OpDef kLayerNorm = {
    .name = "layer_norm",
    .operands = {{"x"}, {"w", ir::Arity::kOptional}, {"bias", ir::Arity::kOptional}},
    .attrs = {{"eps", 1e-5f}},
    .verify = [](const ir::OpView& op) -> Status {
      const ir::TensorType& x = op.in(0);
      if (x.rank() < 1 || x.dim(-1) < 1) return op.broken("C1", "x is {}, needed is [..., C] with C >= 1", x);
      for (std::size_t i = 1; i < op.n_ins(); ++i)
        if (op.in(i).shape != Shape{x.dim(-1)})
          return op.broken("C2", "{} is {}, rows of x are {} wide", op.def().operands[i].name, op.in(i).shape,
                           x.dim(-1));
      if (!is_float(x.dtype)) return op.broken("C3", "x is {}, needed is f32, bf16 or f16", x.dtype);
      for (std::size_t i = 1; i < op.n_ins(); ++i)
        if (op.in(i).dtype != x.dtype)
          return op.broken("C3", "{} is {}, x is {}", op.def().operands[i].name, op.in(i).dtype, x.dtype);
      if (const float eps = op.f32("eps"); !std::isfinite(eps) || eps < 0)
        return op.broken("C4", "eps is {}", eps);
      return ok();
    },
    .infer = infer_same,
    .flops =
        [](const ir::OpView& op) { return elements(op.out()) * static_cast<double>(5 + op.n_ins() - 1); },
    .row_rule = ir::RowRule::kLastAxis,
};

Value layer_norm(Builder& b, Value x, float eps, std::optional<Value> w, std::optional<Value> bias) {
  if (bias && !w) b.fail({ErrorCode::kInternal, "layer_norm: a bias needs a weight"});
  std::vector<Value> operands = {x};
  if (w) operands.push_back(*w);
  if (bias) operands.push_back(*bias);
  return b.emit(kLayerNorm, operands, {eps});
}

}  // namespace dif::ops
