#pragma once

#include <cstdint>
#include <vector>

#include "ir/builder.h"
#include "ir/op_def.h"

namespace dif::ops {

using ir::Builder;
using ir::Value;

extern const ir::OpDef kUpsampleNearest;

/// upsample_nearest(x [N, C, H, W]) -> y [N, C, factor*H, factor*W]       y[.., i, j] = x[.., i/factor,
/// j/factor]
/// channels_last: upsample_nearest(x [N, H, W, C]) -> y [N, factor*H, factor*W, C]
///   C1 rank(x) == 4
///   C2 1 <= factor <= 64
/// Any dtype.
Value upsample_nearest(Builder& b, Value x, std::int64_t factor, bool channels_last = false);

/// The result with its repeated axes split, dense: element i of it is the element of x at the dot product of
/// i and x_strides.
struct Repeats {
  Shape shape;
  std::vector<std::int64_t> x_strides;
};
/// Pre: the operation is verified.
Repeats repeats(const ir::OpView& op);

}  // namespace dif::ops
