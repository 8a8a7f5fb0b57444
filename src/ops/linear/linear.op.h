#pragma once

#include <optional>

#include "ir/builder.h"
#include "ir/op_def.h"

namespace dif::ops {

using ir::Builder;
using ir::Value;

extern const ir::OpDef kLinear;

/// linear(x [..., I], w [O, I], bias? [O]) -> y [..., O]       y = x . transpose(w) + bias
///   C1 rank(x) >= 1, rank(w) == 2
///   C2 dim(x, -1) == dim(w, 1)
///   C3 bias is [O]
///   C4 one floating dtype
/// Accumulates in f32 or wider (the order is the kernel's), adds the bias to the sum, rounds once.
Value linear(Builder& b, Value x, Value w, std::optional<Value> bias = std::nullopt);

}  // namespace dif::ops
