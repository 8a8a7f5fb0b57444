#pragma once

#include <cstdint>

#include "ir/builder.h"
#include "ir/op_def.h"

namespace dif::ops {

using ir::Builder;
using ir::Value;

extern const ir::OpDef kGroupNorm;

/// group_norm(x [N, C, ...], w [C], bias [C]) -> y       normalised over each group of C / groups channels
///   C1 rank(x) >= 2
///   C2 groups >= 1 divides C
///   C3 w and bias are [C]
///   C4 one floating dtype
///   C5 eps is finite and >= 0
/// y = (x - mean) / sqrt(var + eps) * w[channel] + bias[channel]; mean and var over one group of one n.
/// Biased variance (of the centred values), statistics in f32 or wider, one rounding. Source: Wu & He 2018.
Value group_norm(Builder& b, Value x, Value w, Value bias, std::int64_t groups, float eps);

}  // namespace dif::ops
