#include "ops/linear/linear.op.h"

#include "ops/common/checks.h"

namespace dif::ops {

const ir::OpDef kLinear = {
    .name = "linear",
    .operands = {{"x"}, {"w"}, {"bias", ir::Arity::kOptional}},
    .verify = [](const ir::OpView& op) -> Status {
      const ir::TensorType &x = op.in(0), &w = op.in(1);
      if (x.rank() < 1 || w.rank() != 2)
        return op.broken("C1", "x is {}, w is {}: needed are [..., I] and [O, I]", x, w);
      if (x.dim(-1) != w.dim(1))
        return op.broken("C2", "x {} is {} wide, w {} takes {}", x.shape, x.dim(-1), w.shape, w.dim(1));
      if (op.has(2) && op.in(2).shape != Shape{w.dim(0)})
        return op.broken("C3", "bias is {}, needed is [{}]", op.in(2).shape, w.dim(0));
      if (!is_float(x.dtype)) return op.broken("C4", "x is {}, needed is f32, bf16 or f16", x.dtype);
      for (std::size_t i = 1; i < op.n_ins(); ++i)
        if (op.in(i).dtype != x.dtype)
          return op.broken("C4", "{} is {}, x is {}", op.def().operands[i].name, op.in(i).dtype, x.dtype);
      return ok();
    },
    .infer = [](const ir::OpView& op) -> ir::Types {
      ir::TensorType result = op.in(0);
      result.shape.set_dim(-1, op.in(1).dim(0));
      return {result};
    },
    .flops =
        [](const ir::OpView& op) {
          return elements(op.out()) * (2.0 * static_cast<double>(op.in(1).dim(1)) + (op.has(2) ? 1 : 0));
        },
};

Value linear(Builder& b, Value x, Value w, std::optional<Value> bias) {
  std::vector<Value> operands = {x, w};
  if (bias) operands.push_back(*bias);
  return b.emit(kLinear, operands);
}

}  // namespace dif::ops
