#pragma once

#include "ir/builder.h"
#include "ir/op_def.h"

namespace dif::ops {

using ir::Builder;
using ir::Value;

extern const ir::OpDef kMulScalar;

/// mul_scalar(x) -> y       y = x * value in f32, one rounding
///   C1 x is floating
///   C2 value is finite
Value mul_scalar(Builder& b, Value x, float value);

}  // namespace dif::ops
