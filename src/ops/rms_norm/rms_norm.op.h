#pragma once

#include <optional>

#include "ir/builder.h"
#include "ir/op_def.h"

namespace dif::ops {

using ir::Builder;
using ir::Value;

extern const ir::OpDef kRmsNorm;

/// rms_norm(x [..., C], w? [C]) -> y [..., C]       y = x / sqrt(mean(x^2 over C) + eps) * w
///   C1 rank(x) >= 1 and C >= 1
///   C2 shape(w) == [C]
///   C3 dtype(w) == dtype(x), floating
///   C4 eps is finite and >= 0
/// Sums in f32 or wider whatever the dtype; one rounding at the end, weight included. A model that rounds
/// before the weight emits rms_norm without weight, then mul. Source: Zhang & Sennrich 2019 (RMSNorm).
Value rms_norm(Builder& b, Value x, std::optional<Value> w, float eps = 1e-6f);

}  // namespace dif::ops
