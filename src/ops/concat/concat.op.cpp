#include "ops/concat/concat.op.h"

#include "ops/common/checks.h"

namespace dif::ops {

const ir::OpDef kConcat = {
    .name = "concat",
    .operands = {{"x", ir::Arity::kVariadic}},
    .attrs = {{"axis", std::int64_t{0}}},
    .verify = [](const ir::OpView& op) -> Status {
      const ir::TensorType& first = op.in(0);
      const std::int64_t axis = op.i64("axis");
      if (axis < 0 || axis >= first.rank())
        return op.broken("C1", "axis is {}, x has {} axes", axis, first.rank());
      for (std::size_t i = 1; i < op.n_ins(); ++i) {
        const ir::TensorType& x = op.in(i);
        if (x.dtype != first.dtype || x.rank() != first.rank())
          return op.broken("C2", "operand {} is {}, operand 0 is {}", i, x, first);
        for (int a = 0; a < x.rank(); ++a)
          if (a != axis && x.dim(a) != first.dim(a))
            return op.broken("C3", "operand {} is {}, operand 0 is {}: they may differ along axis {} only", i,
                             x, first, axis);
      }
      return ok();
    },
    .infer = [](const ir::OpView& op) -> ir::Types {
      ir::TensorType result = op.in(0);
      const int axis = static_cast<int>(op.i64("axis"));
      for (std::size_t i = 1; i < op.n_ins(); ++i)
        result.shape.set_dim(axis, saturating_add(result.dim(axis), op.in(i).dim(axis)));
      return {result};
    },
    .flops = no_flops,
    .row_rule = ir::RowRule::kConcat,
};

Value concat(Builder& b, std::span<const Value> xs, int axis) {
  const int rank = xs.empty() ? 0 : xs.front().rank();
  return b.emit(kConcat, xs, {from_front(axis, rank)});
}

}  // namespace dif::ops
