#pragma once

#include "ir/builder.h"
#include "ir/op_def.h"

namespace dif::ops {

using ir::Builder;
using ir::Value;

extern const ir::OpDef kSqrt;

/// sqrt(x) -> y       element-wise square root in f32, one rounding; NaN below zero
///   C1 x is floating
Value sqrt(Builder& b, Value x);

}  // namespace dif::ops
