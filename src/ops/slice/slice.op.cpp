#include "ops/slice/slice.op.h"

#include "ops/common/checks.h"

namespace dif::ops {

const ir::OpDef kSlice = {
    .name = "slice",
    .operands = {{"x"}},
    .attrs = {{"axis", std::int64_t{0}}, {"start", std::int64_t{0}}, {"end", std::int64_t{0}}},
    .verify = [](const ir::OpView& op) -> Status {
      const ir::TensorType& x = op.in(0);
      const std::int64_t axis = op.i64("axis"), start = op.i64("start"), end = op.i64("end");
      if (axis < 0 || axis >= x.rank()) return op.broken("C1", "axis is {}, x has {} axes", axis, x.rank());
      const std::int64_t size = x.dim(static_cast<int>(axis));
      if (start < 0 || start > end || end > size)
        return op.broken("C2", "start {} and end {} are not a range of axis {} of size {}", start, end, axis,
                         size);
      return ok();
    },
    .infer = [](const ir::OpView& op) -> ir::Types {
      ir::TensorType result = op.in(0);
      result.shape.set_dim(static_cast<int>(op.i64("axis")), op.i64("end") - op.i64("start"));
      return {result};
    },
    .flops = no_flops,
    .row_rule = ir::RowRule::kSlice,
};

Value slice(Builder& b, Value x, int axis, std::int64_t start, std::int64_t end) {
  return b.emit(kSlice, {x}, {from_front(axis, x.rank()), start, end});
}

}  // namespace dif::ops
