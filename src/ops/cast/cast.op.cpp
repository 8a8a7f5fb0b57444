#include "ops/cast/cast.op.h"

#include "ops/common/checks.h"

namespace dif::ops {

const ir::OpDef kCast = {
    .name = "cast",
    .operands = {{"x"}},
    .attrs = {{"dtype", DType::kF32}},
    .verify = [](const ir::OpView& op) -> Status {
      if (!is_number(op.in(0).dtype))
        return op.broken("C1", "x is {}, needed is f32, bf16, f16 or i32", op.in(0).dtype);
      if (!is_number(op.dtype("dtype")))
        return op.broken("C1", "the result is {}, needed is f32, bf16, f16 or i32", op.dtype("dtype"));
      return ok();
    },
    .infer = [](const ir::OpView& op) -> ir::Types {
      return {{op.dtype("dtype"), op.in(0).shape}};
    },
    .flops = no_flops,
    .row_rule = ir::RowRule::kElementwise,
};

Value cast(Builder& b, Value x, DType dtype) {
  return b.emit(kCast, {x}, {dtype});
}

}  // namespace dif::ops
