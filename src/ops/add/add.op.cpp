#include "ops/add/add.op.h"

#include "ops/common/checks.h"

namespace dif::ops {

const ir::OpDef kAdd = {
    .name = "add",
    .operands = {{"x"}, {"y"}},
    .verify = verify_binary,
    .infer = infer_binary,
    .row_rule = ir::RowRule::kElementwise,
};

Value add(Builder& b, Value x, Value y) {
  return b.emit(kAdd, {x, y});
}

}  // namespace dif::ops
