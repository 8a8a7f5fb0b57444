#pragma once

#include <cstdint>
#include <vector>

#include "ir/builder.h"
#include "ir/op_def.h"

namespace dif::ops {

using ir::Builder;
using ir::Value;

extern const ir::OpDef kTimestepEmbedding;

/// timestep_embedding(t [N]) -> y f32 [N, width]       y = [cos(t f), sin(t f)], cosines first
///   C1 t is f32 of rank 1
///   C2 width is even and >= 2
///   C3 max_period is finite and > 1
/// f_i = exp(e_i) with e_i = (-ln(max_period) * i) / (width / 2), i = 0 .. width/2 - 1: the logarithm, the
/// product, the quotient, f_i and t f_i are each rounded to f32, as the reference framework does it. Source:
/// Vaswani et al. 2017, section 3.5.
Value timestep_embedding(Builder& b, Value t, std::int64_t width, float max_period = 10000.0f);

/// f_0 .. f_(width/2 - 1) of a verified timestep_embedding, with the roundings above.
std::vector<float> timestep_frequencies(const ir::OpView& op);

}  // namespace dif::ops
