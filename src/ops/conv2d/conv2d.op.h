#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "ir/builder.h"
#include "ir/op_def.h"

namespace dif::ops {

using ir::Builder;
using ir::Value;

extern const ir::OpDef kConv2d;

struct Conv2dOptions {
  std::array<std::int64_t, 2> strides = {1, 1};     ///< rows, columns
  std::array<std::int64_t, 4> pads = {0, 0, 0, 0};  ///< top, left, bottom, right
  std::int64_t groups = 1;
  bool channels_last = false;
};

/// conv2d(x [N, Ci, H, W], w [Co, Ci/groups, Kh, Kw], bias? [Co]) -> y [N, Co, Ho, Wo]
/// channels_last: conv2d(x [N, H, W, Ci], w [Co, Kh, Kw, Ci/groups], bias? [Co]) -> y [N, Ho, Wo, Co]
///   C1 ranks are 4
///   C2 groups >= 1 divides Ci and Co, w has Ci / groups channels
///   C3 bias is [Co]
///   C4 strides are 2 numbers >= 1, pads 4 numbers >= 0 (top, left, bottom, right; zeros), all <= 2^40
///   C5 the kernel has at least one element and fits the padded input
///   C6 one floating dtype
/// Cross-correlation; Ho = (H + top + bottom - Kh) / stride + 1, rounded down. Sums in f32 or wider (the
/// order is the kernel's), one rounding.
Value conv2d(Builder& b, Value x, Value w, std::optional<Value> bias, const Conv2dOptions& options);

/// The dimensions by their names above, wherever the channels stand.
struct Conv2dSizes {
  std::int64_t images, ci, h, w, co, ho, wo, kh, kw, groups;
  bool channels_last;

  std::int64_t group_ci() const { return ci / groups; }
  std::int64_t group_co() const { return co / groups; }
};
/// Pre: the operation is verified.
Conv2dSizes conv2d_sizes(const ir::OpView& op);

}  // namespace dif::ops
