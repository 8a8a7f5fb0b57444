#pragma once

#include <cstdint>

#include "ir/builder.h"
#include "ir/op_def.h"

namespace dif::ops {

using ir::Builder;
using ir::Value;

extern const ir::OpDef kTimestepEmbedding;

/// timestep_embedding(t [N]) -> y f32 [N, width]       y = [cos(t f), sin(t f)], f_i = max_period^(-i /
/// (width/2)) C1 t is f32 of rank 1    C2 width is even and >= 2    C3 max_period is finite and > 1 Cosines
/// first. f_i and the products are f32. Source: Vaswani et al. 2017, section 3.5.
Value timestep_embedding(Builder& b, Value t, std::int64_t width, float max_period = 10000.0f);

}  // namespace dif::ops
