#include "ops/sub/sub.op.h"

#include "ops/common/checks.h"

namespace dif::ops {

const ir::OpDef kSub = {
    .name = "sub",
    .operands = {{"x"}, {"y"}},
    .verify = verify_binary,
    .infer = infer_binary,
    .row_rule = ir::RowRule::kElementwise,
};

Value sub(Builder& b, Value x, Value y) {
  return b.emit(kSub, {x, y});
}

}  // namespace dif::ops
