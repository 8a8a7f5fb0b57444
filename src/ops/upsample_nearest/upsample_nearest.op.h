#pragma once

#include <cstdint>

#include "ir/builder.h"
#include "ir/op_def.h"

namespace dif::ops {

using ir::Builder;
using ir::Value;

extern const ir::OpDef kUpsampleNearest;

/// upsample_nearest(x [N, C, H, W]) -> y [N, C, factor*H, factor*W]       y[.., i, j] = x[.., i/factor,
/// j/factor]
///   C1 rank(x) == 4
///   C2 1 <= factor <= 64
/// Any dtype.
Value upsample_nearest(Builder& b, Value x, std::int64_t factor);

}  // namespace dif::ops
