#pragma once

#include "ir/builder.h"
#include "ir/op_def.h"

namespace dif::ops {

using ir::Builder;
using ir::Value;

extern const ir::OpDef kAdd;

/// add(x, y) -> z       z = x + y
///   C1 dtype(x) == dtype(y), floating or i32
///   C2 shapes broadcast: right-aligned, a dimension of 1 repeats
/// One rounding to the operands' dtype; i32 wraps around.
Value add(Builder& b, Value x, Value y);

}  // namespace dif::ops
