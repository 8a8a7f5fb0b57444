#pragma once

#include "ir/builder.h"
#include "ir/op_def.h"

namespace dif::ops {

using ir::Builder;
using ir::Value;

extern const ir::OpDef kSilu;

/// silu(x) -> y       y = x / (1 + exp(-x)) in f32 or wider, one rounding
///   C1 x is floating
/// Source: Hendrycks & Gimpel 2016 (SiLU).
Value silu(Builder& b, Value x);

}  // namespace dif::ops
