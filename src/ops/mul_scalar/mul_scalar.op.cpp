#include "ops/mul_scalar/mul_scalar.op.h"

#include <cmath>

#include "ops/common/checks.h"

namespace dif::ops {

const ir::OpDef kMulScalar = {
    .name = "mul_scalar",
    .operands = {{"x"}},
    .attrs = {{"value", 0.0f}},
    .verify = [](const ir::OpView& op) -> Status {
      if (!is_float(op.in(0).dtype))
        return op.broken("C1", "x is {}, needed is f32, bf16 or f16", op.in(0).dtype);
      if (!std::isfinite(op.f32("value"))) return op.broken("C2", "value is {}", op.f32("value"));
      return ok();
    },
    .infer = infer_same,
    .row_rule = ir::RowRule::kElementwise,
};

Value mul_scalar(Builder& b, Value x, float value) {
  return b.emit(kMulScalar, {x}, {value});
}

}  // namespace dif::ops
