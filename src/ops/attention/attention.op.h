#pragma once

#include <optional>

#include "ir/builder.h"
#include "ir/op_def.h"

namespace dif::ops {

using ir::Builder;
using ir::Value;

extern const ir::OpDef kAttention;

/// attention(q [B, Sq, Hq, D], k [B, Sk, Hkv, D], v [B, Sk, Hkv, Dv], key_mask? [B, Sk]) -> y [B, Sq, Hq, Dv]
///   C1 ranks are 4, B agrees, Sk and Hkv of k and v agree
///   C2 D of q and k agrees
///   C3 Hkv >= 1 divides Hq
///   C4 one floating dtype
///   C5 key_mask is bool [B, Sk]
///   C6 causal needs Sq == Sk
///   C7 scale is finite
/// softmax(scale * q . k) . v over the keys that are allowed: mask true, and not after the query when causal.
/// Query head h reads key head h / (Hq / Hkv). A query without any allowed key gives zeros. Sums in f32 or
/// wider; the dtype of probabilities is the kernel's. flops counts every pair of query and key. Source:
/// Vaswani et al. 2017.
Value attention(Builder& b, Value q, Value k, Value v, std::optional<Value> key_mask, bool causal,
                float scale);

}  // namespace dif::ops
