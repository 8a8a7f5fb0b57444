#include "ops/transpose/transpose.op.h"

#include <algorithm>

#include "ops/common/checks.h"

namespace dif::ops {

const ir::OpDef kTranspose = {
    .name = "transpose",
    .operands = {{"x"}},
    .attrs = {{"perm", std::vector<std::int64_t>{}}},
    .verify = [](const ir::OpView& op) -> Status {
      std::vector<std::int64_t> sorted = op.i64s("perm");
      std::ranges::sort(sorted);
      bool good = sorted.size() == static_cast<std::size_t>(op.in(0).rank());
      for (std::size_t i = 0; good && i < sorted.size(); ++i)
        good = sorted[i] == static_cast<std::int64_t>(i);
      if (!good)
        return op.broken("C1", "perm {} is not a permutation of the {} axes of x", list_text(op.i64s("perm")),
                         op.in(0).rank());
      return ok();
    },
    .infer = [](const ir::OpView& op) -> ir::Types {
      ir::TensorType result = op.in(0);
      const auto& perm = op.i64s("perm");
      for (int axis = 0; axis < result.rank(); ++axis)
        result.shape.set_dim(axis, op.in(0).dim(static_cast<int>(perm[static_cast<std::size_t>(axis)])));
      return {result};
    },
    .flops = no_flops,
};

Value transpose(Builder& b, Value x, std::vector<std::int64_t> perm) {
  return b.emit(kTranspose, {x}, {std::move(perm)});
}

}  // namespace dif::ops
