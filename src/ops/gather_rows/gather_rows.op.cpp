#include "ops/gather_rows/gather_rows.op.h"

#include "ops/common/checks.h"

namespace dif::ops {

const ir::OpDef kGatherRows = {
    .name = "gather_rows",
    .operands = {{"table"}, {"ids"}},
    .verify = [](const ir::OpView& op) -> Status {
      const ir::TensorType &table = op.in(0), &ids = op.in(1);
      if (table.rank() < 1) return op.broken("C1", "table is a scalar");
      if (ids.dtype != DType::kI32) return op.broken("C2", "ids is {}, needed is i32", ids.dtype);
      if (ids.rank() + table.rank() - 1 > Shape::kMaxRank)
        return op.broken("C3", "ids {} and table {} give more than {} axes", ids.shape, table.shape,
                         Shape::kMaxRank);
      return ok();
    },
    .infer = [](const ir::OpView& op) -> ir::Types {
      std::vector<std::int64_t> dims(op.in(1).shape.dims().begin(), op.in(1).shape.dims().end());
      const auto row = op.in(0).shape.dims().subspan(1);
      dims.insert(dims.end(), row.begin(), row.end());
      return {{op.in(0).dtype, Shape(dims)}};
    },
    .flops = no_flops,
};

Value gather_rows(Builder& b, Value table, Value ids) {
  return b.emit(kGatherRows, {table, ids});
}

}  // namespace dif::ops
