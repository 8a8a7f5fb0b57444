#pragma once

#include "ir/builder.h"
#include "ir/op_def.h"

namespace dif::ops {

using ir::Builder;
using ir::Value;

extern const ir::OpDef kRotary;

/// rotary(x [B, S, H, D], cos [S, R/2], sin [S, R/2]) -> y       rotates the first R of D dimensions of each
/// head
///   C1 rank(x) == 4
///   C2 cos and sin are f32 [S, R/2] with R <= D
///   C3 x is floating
/// interleaved: pairs (x[2i], x[2i+1]); otherwise pairs (x[i], x[i + R/2]). (a, b) -> (a cos - b sin, b cos +
/// a sin) in f32, each product rounded before the sum, one rounding to dtype(x). Dimensions R .. D-1 are
/// copied. Source: Su et al. 2021 (RoFormer).
Value rotary(Builder& b, Value x, Value cos, Value sin, bool interleaved);

}  // namespace dif::ops
