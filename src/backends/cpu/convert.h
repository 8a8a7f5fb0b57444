#pragma once

#include <cstdint>

#include "dif/dtype.h"

namespace dif::cpu {

/// y[i] = x[i] in another floating dtype (f32, bf16, f16) for i < n, rounded to nearest even. Spread over the
/// threads; `x` and `y` do not overlap.
void convert(DType from, const void* x, DType to, void* y, std::int64_t n);

}  // namespace dif::cpu
