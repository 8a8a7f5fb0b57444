#include "ops/upsample_nearest/upsample_nearest.op.h"

#include "ops/common/checks.h"

namespace dif::ops {

const ir::OpDef kUpsampleNearest = {
    .name = "upsample_nearest",
    .operands = {{"x"}},
    .attrs = {{"factor", std::int64_t{1}}},
    .verify = [](const ir::OpView& op) -> Status {
      if (op.in(0).rank() != 4) return op.broken("C1", "x is {}, needed is [N, C, H, W]", op.in(0));
      if (const std::int64_t factor = op.i64("factor"); factor < 1 || factor > 64)
        return op.broken("C2", "factor is {}, needed is 1 .. 64", factor);
      return ok();
    },
    .infer = [](const ir::OpView& op) -> ir::Types {
      ir::TensorType result = op.in(0);
      for (const int axis : {2, 3})
        result.shape.set_dim(axis, saturating_mul(result.dim(axis), op.i64("factor")));
      return {result};
    },
    .flops = no_flops,
};

Value upsample_nearest(Builder& b, Value x, std::int64_t factor) {
  return b.emit(kUpsampleNearest, {x}, {factor});
}

}  // namespace dif::ops
