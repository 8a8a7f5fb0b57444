#pragma once

#include "ir/builder.h"
#include "ir/op_def.h"

namespace dif::ops {

using ir::Builder;
using ir::Value;

extern const ir::OpDef kCast;

/// cast(x) -> y       the same numbers in another dtype
///   C1 x and the result are f32, bf16, f16 or i32
/// By way of f32 (an i32 beyond 2^24 rounds there first), to nearest even. i32 from floating truncates
/// towards zero and saturates; NaN becomes 0. i32 to i32 copies.
Value cast(Builder& b, Value x, DType dtype);

}  // namespace dif::ops
