#include "ops/sqrt/sqrt.op.h"

#include "ops/common/checks.h"

namespace dif::ops {

const ir::OpDef kSqrt = {
    .name = "sqrt",
    .operands = {{"x"}},
    .verify = [](const ir::OpView& op) -> Status {
      if (!is_float(op.in(0).dtype))
        return op.broken("C1", "x is {}, needed is f32, bf16 or f16", op.in(0).dtype);
      return ok();
    },
    .infer = infer_same,
    .row_rule = ir::RowRule::kElementwise,
};

Value sqrt(Builder& b, Value x) {
  return b.emit(kSqrt, {x});
}

}  // namespace dif::ops
