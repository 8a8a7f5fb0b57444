#include "ops/mul/mul.op.h"

#include "ops/common/checks.h"

namespace dif::ops {

const ir::OpDef kMul = {
    .name = "mul",
    .operands = {{"x"}, {"y"}},
    .verify = verify_binary,
    .infer = infer_binary,
    .row_rule = ir::RowRule::kElementwise,
};

Value mul(Builder& b, Value x, Value y) {
  return b.emit(kMul, {x, y});
}

}  // namespace dif::ops
