#include "ops/reshape/reshape.op.h"

#include "ops/common/checks.h"

namespace dif::ops {

const ir::OpDef kReshape = {
    .name = "reshape",
    .operands = {{"x"}},
    .attrs = {{"shape", std::vector<std::int64_t>{}}},
    .verify = [](const ir::OpView& op) -> Status {
      const auto& dims = op.i64s("shape");
      if (dims.size() > Shape::kMaxRank)
        return op.broken("C1", "the shape has rank {}, at most {} is allowed", dims.size(), Shape::kMaxRank);
      const Shape shape(dims);
      const auto count = shape.checked_numel();
      if (!count || count != op.in(0).shape.checked_numel())
        return op.broken("C1", "{} does not have as many elements as x {}", shape, op.in(0).shape);
      return ok();
    },
    .infer = [](const ir::OpView& op) -> ir::Types {
      return {{op.in(0).dtype, Shape(op.i64s("shape"))}};
    },
    .flops = no_flops,
    .is_view = true,
};

Value reshape(Builder& b, Value x, const Shape& shape) {
  return b.emit(kReshape, {x}, {std::vector<std::int64_t>(shape.dims().begin(), shape.dims().end())});
}

}  // namespace dif::ops
