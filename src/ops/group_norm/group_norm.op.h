#pragma once

#include <cstdint>

#include "ir/builder.h"
#include "ir/op_def.h"

namespace dif::ops {

using ir::Builder;
using ir::Value;

extern const ir::OpDef kGroupNorm;

/// group_norm(x [N, C, ...], w [C], bias [C]) -> y       normalised over each group of C / groups channels
/// channels_last: x is [N, ..., C]
///   C1 rank(x) >= 2
///   C2 groups >= 1 divides C
///   C3 w and bias are [C]
///   C4 one floating dtype
///   C5 eps is finite and >= 0
/// y = (x - mean) / sqrt(var + eps) * w[channel] + bias[channel]; mean and var over one group of one n.
/// Biased variance (of the centred values), statistics in f32 or wider, one rounding. Source: Wu & He 2018.
Value group_norm(Builder& b, Value x, Value w, Value bias, std::int64_t groups, float eps,
                 bool channels_last = false);

/// The dimensions by their meaning, wherever the channels stand; `positions` is what the dots above multiply
/// to.
struct GroupNormSizes {
  std::int64_t images, channels, positions, groups;
  bool channels_last;

  std::int64_t group_channels() const { return channels / groups; }
};
/// Pre: the operation is verified.
GroupNormSizes group_norm_sizes(const ir::OpView& op);

}  // namespace dif::ops
