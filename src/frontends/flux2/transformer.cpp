#include "frontends/flux2/transformer.h"

#include <array>
#include <vector>

#include "frontends/blocks/layers.h"
#include "ops/attention/attention.op.h"
#include "ops/cast/cast.op.h"
#include "ops/concat/concat.op.h"
#include "ops/rotary/rotary.op.h"
#include "ops/silu/silu.op.h"
#include "ops/slice/slice.op.h"
#include "ops/timestep_embedding/timestep_embedding.op.h"

namespace dif::frontends::flux2 {

namespace {

/// shift, scale and gate of one half of a block, each [1, hidden].
struct Modulation {
  Value shift, scale, gate;
};

/// What every block needs besides its tokens.
struct Shared {
  const TransformerConfig& config;
  const Rotation& rotation;
};

Value time_embedding(const Module& root, const TransformerConfig& c, Value model_time) {
  const Module module(root, "time_guidance_embed");
  ir::Builder& b = module.b();
  const Value waves = ops::timestep_embedding(b, model_time, c.time_channels);
  const Module embedder(module, "timestep_embedder");
  Value h = linear(embedder, "linear_1",
                   waves.dtype() == root.dtype() ? waves : ops::cast(b, waves, root.dtype()), c.hidden());
  return linear(embedder, "linear_2", ops::silu(b, h), c.hidden());
}

/// The modulations that lie one after another in `all`.
std::vector<Modulation> split_modulations(ir::Builder& b, Value all, int sets) {
  const std::vector<Value> parts = chunk(b, all, 3 * sets);
  std::vector<Modulation> result;
  for (std::size_t i = 0; i < parts.size(); i += 3) result.push_back({parts[i], parts[i + 1], parts[i + 2]});
  return result;
}

/// `sets` modulations from silu(time embedding); all blocks of a kind share them.
std::vector<Modulation> modulations(const Module& root, std::string_view name, Value silu_temb, int sets) {
  const Module module(root, name);
  const Value all = module.result(linear(module, "linear", silu_temb, 3 * sets * silu_temb.dim(-1)));
  return split_modulations(module.b(), all, sets);
}

/// Rotates q and k, attends over all rows, and joins the heads: [B, S, H, D] -> [B, S, H * D].
Value attend(ir::Builder& b, const Shared& shared, Value q, Value k, Value v) {
  q = ops::rotary(b, q, shared.rotation.cos, shared.rotation.sin, /*interleaved=*/true);
  k = ops::rotary(b, k, shared.rotation.cos, shared.rotation.sin, /*interleaved=*/true);
  return merge_heads(
      b, ops::attention(b, q, k, v, std::nullopt, /*causal=*/false, attention_scale(shared.config.head_dim)));
}

/// The names of a stream's projections and norms in a double block.
struct StreamNames {
  std::string_view q, k, v, norm_q, norm_k;
};
constexpr StreamNames kImageNames{"to_q", "to_k", "to_v", "norm_q", "norm_k"};
constexpr StreamNames kTextNames{"add_q_proj", "add_k_proj", "add_v_proj", "norm_added_q", "norm_added_k"};

struct QueryKeyValue {
  Value q, k, v;
};

QueryKeyValue project(const Module& module, const TransformerConfig& c, const StreamNames& names, Value x) {
  ir::Builder& b = module.b();
  const Value q = split_heads(b, linear(module, names.q, x, c.hidden()), c.heads);
  const Value k = split_heads(b, linear(module, names.k, x, c.hidden()), c.heads);
  const Value v = split_heads(b, linear(module, names.v, x, c.hidden()), c.heads);
  return {rms_norm(module, names.norm_q, q, c.eps), rms_norm(module, names.norm_k, k, c.eps), v};
}

Streams joint_attention(const Module& parent, const Shared& shared, Streams x) {
  const Module module(parent, "attn");
  ir::Builder& b = module.b();
  const std::int64_t hidden = shared.config.hidden();
  const std::int64_t text_rows = x.text.dim(1), rows = text_rows + x.image.dim(1);
  const QueryKeyValue image = project(module, shared.config, kImageNames, x.image);
  const QueryKeyValue text = project(module, shared.config, kTextNames, x.text);
  const Value seen =
      attend(b, shared, ops::concat(b, std::array{text.q, image.q}, 1),
             ops::concat(b, std::array{text.k, image.k}, 1), ops::concat(b, std::array{text.v, image.v}, 1));
  const Value text_out = linear(module, "to_add_out", ops::slice(b, seen, 1, 0, text_rows), hidden);
  const Value image_out = linear(module, "to_out.0", ops::slice(b, seen, 1, text_rows, rows), hidden);
  return {module.result(image_out, "out0"), module.result(text_out, "out1")};
}

Value feed_forward(const Module& parent, std::string_view name, const TransformerConfig& c, Value x) {
  const Module module(parent, name);
  const Value inner = swiglu(module.b(), linear(module, "linear_in", x, 2 * c.mlp));
  return module.result(linear(module, "linear_out", inner, c.hidden()));
}

Streams double_block(const Module& root, const Shared& shared, std::int64_t number, Streams x,
                     const std::vector<Modulation>& image_mod, const std::vector<Modulation>& text_mod) {
  const Module module(root, with_number("transformer_blocks.#", number));
  ir::Builder& b = module.b();
  const TransformerConfig& c = shared.config;
  const Streams h = {
      modulate(b, layer_norm(module, "norm1", x.image, c.eps), image_mod[0].shift, image_mod[0].scale),
      modulate(b, layer_norm(module, "norm1_context", x.text, c.eps), text_mod[0].shift, text_mod[0].scale)};
  const Streams seen = joint_attention(module, shared, h);

  Value image = gated_add(b, x.image, image_mod[0].gate, seen.image);
  Value inner =
      modulate(b, layer_norm(module, "norm2", image, c.eps), image_mod[1].shift, image_mod[1].scale);
  image = gated_add(b, image, image_mod[1].gate, feed_forward(module, "ff", c, inner));

  Value text = gated_add(b, x.text, text_mod[0].gate, seen.text);
  inner = modulate(b, layer_norm(module, "norm2_context", text, c.eps), text_mod[1].shift, text_mod[1].scale);
  text = gated_add(b, text, text_mod[1].gate, feed_forward(module, "ff_context", c, inner));
  return {module.result(image, "out1"), module.result(text, "out0")};
}

Value parallel_attention(const Module& parent, const Shared& shared, Value x) {
  const Module module(parent, "attn");
  ir::Builder& b = module.b();
  const TransformerConfig& c = shared.config;
  const std::int64_t hidden = c.hidden();
  const Value fused = linear(module, "to_qkv_mlp_proj", x, 3 * hidden + 2 * c.mlp);
  const auto part = [&](int i) {
    return split_heads(b, ops::slice(b, fused, -1, i * hidden, (i + 1) * hidden), c.heads);
  };
  const Value q = rms_norm(module, "norm_q", part(0), c.eps);
  const Value k = rms_norm(module, "norm_k", part(1), c.eps);
  const Value seen = attend(b, shared, q, k, part(2));
  const Value inner = swiglu(b, ops::slice(b, fused, -1, 3 * hidden, 3 * hidden + 2 * c.mlp));
  const Value joined = ops::concat(b, std::array{seen, inner}, -1);
  return module.result(linear(module, "to_out", joined, hidden));
}

Value single_block(const Module& root, const Shared& shared, std::int64_t number, Value x,
                   const Modulation& mod) {
  const Module module(root, with_number("single_transformer_blocks.#", number));
  ir::Builder& b = module.b();
  const Value h = modulate(b, layer_norm(module, "norm", x, shared.config.eps), mod.shift, mod.scale);
  return module.result(gated_add(b, x, mod.gate, parallel_attention(module, shared, h)));
}

/// Scale comes before shift here, unlike everywhere else.
Value output_norm(const Module& root, const TransformerConfig& c, Value x, Value silu_temb) {
  const Module module(root, "norm_out");
  const std::vector<Value> mod = chunk(module.b(), linear(module, "linear", silu_temb, 2 * c.hidden()), 2);
  return module.result(modulate(module.b(), layer_norm(module, "norm", x, c.eps), mod[1], mod[0]));
}

}  // namespace

RotaryTable rotary_table(const TransformerConfig& config, std::int64_t text_tokens, std::int64_t rows,
                         std::int64_t columns) {
  std::vector<std::array<std::int64_t, 4>> positions;
  positions.reserve(static_cast<std::size_t>(text_tokens + rows * columns));
  for (std::int64_t i = 0; i < text_tokens; ++i) positions.push_back({0, 0, 0, i});
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t column = 0; column < columns; ++column) positions.push_back({0, row, column, 0});
  return rotary_table_f64(positions, config.rope_axes, config.rope_theta);
}

Streams build_double_block(const Module& root, const TransformerConfig& config, std::int64_t number,
                           Streams rows, Value image_modulation, Value text_modulation,
                           const Rotation& rotation) {
  return double_block(root, {config, rotation}, number, rows,
                      split_modulations(root.b(), image_modulation, 2),
                      split_modulations(root.b(), text_modulation, 2));
}

Value build_single_block(const Module& root, const TransformerConfig& config, std::int64_t number, Value rows,
                         Value modulation, const Rotation& rotation) {
  return single_block(root, {config, rotation}, number, rows,
                      split_modulations(root.b(), modulation, 1).front());
}

Value build_transformer(const Module& root, const TransformerConfig& config, Value latents, Value prompt,
                        Value model_time, const Rotation& rotation) {
  ir::Builder& b = root.b();
  const Shared shared{config, rotation};
  const Value temb = time_embedding(root, config, model_time);
  b.boundary("time_guidance_embed", temb);
  const Value silu_temb = ops::silu(b, temb);
  const auto image_mod = modulations(root, "double_stream_modulation_img", silu_temb, 2);
  const auto text_mod = modulations(root, "double_stream_modulation_txt", silu_temb, 2);
  const auto single_mod = modulations(root, "single_stream_modulation", silu_temb, 1);

  Streams x;
  x.image = linear(root, "x_embedder", latents, config.hidden());
  x.text = linear(root, "context_embedder", prompt, config.hidden());
  for (std::int64_t i = 0; i < config.double_blocks; ++i)
    x = double_block(root, shared, i, x, image_mod, text_mod);

  const std::int64_t text_rows = x.text.dim(1);
  Value joint = ops::concat(b, std::array{x.text, x.image}, 1);
  for (std::int64_t i = 0; i < config.single_blocks; ++i)
    joint = single_block(root, shared, i, joint, single_mod.front());

  const Value image = ops::slice(b, joint, 1, text_rows, joint.dim(1));
  const Value normed = output_norm(root, config, image, silu_temb);
  return linear(root, "proj_out", normed, config.in_channels);
}

}  // namespace dif::frontends::flux2
