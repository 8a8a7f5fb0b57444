#include "ops/mul/mul.op.h"

#include "ops/common/checks.h"

namespace dif::ops {

const ir::OpDef kMul = {
    .name = "mul",
    .operands = {{"x"}, {"y"}},
    .verify = verify_binary,
    .infer = infer_binary,
};

Value mul(Builder& b, Value x, Value y) {
  return b.emit(kMul, {x, y});
}

}  // namespace dif::ops
