#include "ops/rotary/rotary.op.h"

#include "ops/common/checks.h"

namespace dif::ops {

const ir::OpDef kRotary = {
    .name = "rotary",
    .operands = {{"x"}, {"cos"}, {"sin"}},
    .attrs = {{"interleaved", false}},
    .verify = [](const ir::OpView& op) -> Status {
      const ir::TensorType &x = op.in(0), &cos = op.in(1), &sin = op.in(2);
      if (x.rank() != 4) return op.broken("C1", "x is {}, needed is [B, S, H, D]", x);
      if (cos != sin || cos.dtype != DType::kF32 || cos.rank() != 2 || cos.dim(0) != x.dim(1) ||
          cos.dim(1) > x.dim(3) / 2)
        return op.broken("C2", "cos is {}, sin is {}: x {} needs f32 [{}, at most {}]", cos, sin, x.shape,
                         x.dim(1), x.dim(3) / 2);
      if (!is_float(x.dtype)) return op.broken("C3", "x is {}, needed is f32, bf16 or f16", x.dtype);
      return ok();
    },
    .infer = infer_same,
    .flops =
        [](const ir::OpView& op) {
          return 6.0 * elements(op.in(1)) * static_cast<double>(op.in(0).dim(0)) *
                 static_cast<double>(op.in(0).dim(2));
        },
    .row_rule = ir::RowRule::kHeads,
};

Value rotary(Builder& b, Value x, Value cos, Value sin, bool interleaved) {
  return b.emit(kRotary, {x, cos, sin}, {interleaved});
}

}  // namespace dif::ops
