#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "dif/status.h"
#include "frontends/blocks/module.h"
#include "frontends/blocks/rotary_tables.h"
#include "io/json.h"

namespace dif::frontends {

/// A Qwen3 text model, as far as its hidden states need it.
struct Qwen3Config {
  std::int64_t vocabulary = 0;
  std::int64_t hidden = 0;
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;  ///< heads * head_dim need not be hidden
  std::int64_t mlp = 0;
  std::int64_t max_positions = 0;
  float eps = 1e-6f;
  double rope_theta = 1e6;
};

/// Reads text_encoder/config.json and holds it against the checkpoint. `last_layer`: how many layers will be
/// run, at least. Errors: InvalidInput, naming the key, or both sides of a disagreement.
Result<Qwen3Config> read_qwen3_config(const io::JsonDocument& config, const WeightSource& weights,
                                      std::int64_t last_layer);

/// What config.json alone says, for a checkpoint that is still to be made.
Result<Qwen3Config> read_qwen3_config(const io::JsonDocument& config, std::int64_t last_layer);

/// Whether a Qwen3 checkpoint may hold tensor `name` without its being used when only the first `layers`
/// layers are run: later layers, the final norm, the output head.
bool qwen3_may_be_unused(std::string_view name, std::int64_t layers);

/// ids i32 [B, T], mask bool [B, T] (true: a token) -> [B, T, taps * hidden]: the residual stream after
/// taps[i] layers, one tap after another along the last axis. Runs as many layers as the last tap needs. A
/// padded query sees the keys before it that are tokens. Source: transformers, modeling_qwen3.py; diffusers,
/// pipeline_flux2_klein.py. Pre: taps ascend, from 1 to config.layers.
ir::Value build_qwen3(const Module& root, const Qwen3Config& config, ir::Value ids, ir::Value mask,
                      std::span<const std::int64_t> taps, const Rotation& rotation);

}  // namespace dif::frontends
