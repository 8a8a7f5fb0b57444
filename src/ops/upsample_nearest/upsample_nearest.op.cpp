#include "ops/upsample_nearest/upsample_nearest.op.h"

#include "ops/common/checks.h"

namespace dif::ops {

const ir::OpDef kUpsampleNearest = {
    .name = "upsample_nearest",
    .operands = {{"x"}},
    .attrs = {{"factor", std::int64_t{1}}, {"channels_last", false, /*optional=*/true}},
    .verify = [](const ir::OpView& op) -> Status {
      if (op.in(0).rank() != 4) return op.broken("C1", "x is {}, needed is rank 4", op.in(0));
      if (const std::int64_t factor = op.i64("factor"); factor < 1 || factor > 64)
        return op.broken("C2", "factor is {}, needed is 1 .. 64", factor);
      return ok();
    },
    .infer = [](const ir::OpView& op) -> ir::Types {
      ir::TensorType result = op.in(0);
      const int rows = op.flag("channels_last") ? 1 : 2;
      for (const int axis : {rows, rows + 1})
        result.shape.set_dim(axis, saturating_mul(result.dim(axis), op.i64("factor")));
      return {result};
    },
    .flops = no_flops,
};

Value upsample_nearest(Builder& b, Value x, std::int64_t factor, bool channels_last) {
  return b.emit(kUpsampleNearest, {x}, {factor, channels_last});
}

Repeats repeats(const ir::OpView& op) {
  const Shape& x = op.in(0).shape;
  const std::int64_t factor = op.i64("factor");
  // The two factor axes repeat the element of x.
  if (op.flag("channels_last")) {
    const std::int64_t columns = x.dim(2), channels = x.dim(3);
    return {{x.dim(0) * x.dim(1), factor, columns, factor, channels},
            {columns * channels, 0, channels, 0, 1}};
  }
  const std::int64_t rows = x.dim(2), columns = x.dim(3);
  return {{x.dim(0) * x.dim(1), rows, factor, columns, factor}, {rows * columns, columns, 0, 1, 0}};
}

}  // namespace dif::ops
