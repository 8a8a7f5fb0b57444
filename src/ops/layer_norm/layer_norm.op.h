#pragma once

#include <optional>

#include "ir/builder.h"
#include "ir/op_def.h"

namespace dif::ops {

using ir::Builder;
using ir::Value;

extern const ir::OpDef kLayerNorm;

/// layer_norm(x [..., C], w? [C], bias? [C]) -> y [..., C]       y = (x - mean) / sqrt(var + eps) * w + bias
///   C1 rank(x) >= 1 and C >= 1
///   C2 w and bias are [C]
///   C3 one floating dtype
///   C4 eps is finite and >= 0
/// Biased variance (of the centred values), statistics in f32 or wider, one rounding. A bias without a weight
/// cannot be said: the builder refuses it. Source: Ba, Kiros & Hinton 2016.
Value layer_norm(Builder& b, Value x, float eps, std::optional<Value> w = std::nullopt,
                 std::optional<Value> bias = std::nullopt);

}  // namespace dif::ops
