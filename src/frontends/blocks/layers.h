#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "frontends/blocks/module.h"
#include "ir/builder.h"

namespace dif::frontends {

using ir::Value;

/// Layers with a name: the weights are `parent.name.weight` (and .bias), the result is recorded.

/// x [..., I] -> [..., width]
Value linear(const Module& parent, std::string_view name, Value x, std::int64_t width, bool bias = false);
/// LayerNorm without weight and bias.
Value layer_norm(const Module& parent, std::string_view name, Value x, float eps);
/// torch.nn.RMSNorm over the last axis: rounds once, after the weight.
Value rms_norm(const Module& parent, std::string_view name, Value x, float eps);
/// Qwen's RMSNorm over the last axis: rounds after the division and again after the weight.
Value rms_norm_rounding_twice(const Module& parent, std::string_view name, Value x, float eps);
/// GroupNorm over axis 1 with weight and bias.
Value group_norm(const Module& parent, std::string_view name, Value x, std::int64_t groups, float eps);
/// x [N, I, H, W] -> [N, channels, H, W]: square kernel, stride 1, zero padding that keeps the size, bias.
Value conv2d(const Module& parent, std::string_view name, Value x, std::int64_t channels,
             std::int64_t kernel);

/// Pieces without weights.

/// `n` equal parts of the last axis.
std::vector<Value> chunk(ir::Builder& b, Value x, int n);
/// silu(gate) * up of x = [gate | up] along the last axis.
Value swiglu(ir::Builder& b, Value x);
/// AdaLN on a normalised x: (1 + scale) * x + shift.
Value modulate(ir::Builder& b, Value x, Value shift, Value scale);
/// x + gate * y.
Value gated_add(ir::Builder& b, Value x, Value gate, Value y);
/// [B, S, H*D] -> [B, S, H, D], and back.
Value split_heads(ir::Builder& b, Value x, std::int64_t heads);
Value merge_heads(ir::Builder& b, Value x);
/// 1 / sqrt(head_dim).
float attention_scale(std::int64_t head_dim);

}  // namespace dif::frontends
