#include "frontends/blocks/qwen3.h"

#include <vector>

#include "base/check.h"
#include "frontends/blocks/layers.h"
#include "ops/add/add.op.h"
#include "ops/attention/attention.op.h"
#include "ops/cast/cast.op.h"
#include "ops/concat/concat.op.h"
#include "ops/gather_rows/gather_rows.op.h"
#include "ops/mul/mul.op.h"
#include "ops/silu/silu.op.h"

namespace dif::frontends {

namespace {

Value embed(const Module& parent, const Qwen3Config& c, Value ids) {
  const Module module(parent, "embed_tokens");
  // Cast after the lookup: the same numbers, without a second copy of the whole table.
  const Value table = module.stored_weight("weight", {c.vocabulary, c.hidden});
  const Value rows = ops::gather_rows(module.b(), table, ids);
  return module.result(rows.dtype() == module.dtype() ? rows : ops::cast(module.b(), rows, module.dtype()));
}

Value self_attention(const Module& parent, const Qwen3Config& c, Value x, Value mask,
                     const Rotation& rotation) {
  const Module module(parent, "self_attn");
  ir::Builder& b = module.b();
  Value q = split_heads(b, linear(module, "q_proj", x, c.heads * c.head_dim), c.heads);
  q = rms_norm_rounding_twice(module, "q_norm", q, c.eps);
  Value k = split_heads(b, linear(module, "k_proj", x, c.kv_heads * c.head_dim), c.kv_heads);
  k = rms_norm_rounding_twice(module, "k_norm", k, c.eps);
  const Value v = split_heads(b, linear(module, "v_proj", x, c.kv_heads * c.head_dim), c.kv_heads);
  q = rotate_half_split(b, q, rotation);
  k = rotate_half_split(b, k, rotation);
  const Value seen = ops::attention(b, q, k, v, mask, /*causal=*/true, attention_scale(c.head_dim));
  return module.result(linear(module, "o_proj", merge_heads(b, seen), c.hidden), "out0");
}

Value mlp(const Module& parent, const Qwen3Config& c, Value x) {
  const Module module(parent, "mlp");
  ir::Builder& b = module.b();
  const Value gate = ops::silu(b, linear(module, "gate_proj", x, c.mlp));
  const Value up = linear(module, "up_proj", x, c.mlp);
  return module.result(linear(module, "down_proj", ops::mul(b, gate, up), c.hidden));
}

Value decoder_layer(const Module& parent, const Qwen3Config& c, std::int64_t number, Value x, Value mask,
                    const Rotation& rotation) {
  const Module module(parent, with_number("layers.#", number));
  ir::Builder& b = module.b();
  Value h = rms_norm_rounding_twice(module, "input_layernorm", x, c.eps);
  x = ops::add(b, x, self_attention(module, c, h, mask, rotation));
  h = rms_norm_rounding_twice(module, "post_attention_layernorm", x, c.eps);
  return module.result(ops::add(b, x, mlp(module, c, h)));
}

}  // namespace

Value build_qwen3(const Module& root, const Qwen3Config& config, Value ids, Value mask,
                  std::span<const std::int64_t> taps, const Rotation& rotation) {
  DIF_CHECK(!taps.empty() && taps.front() >= 1 && taps.back() <= config.layers);
  const Module model(root, "model");
  std::vector<Value> tapped;
  Value x = embed(model, config, ids);
  for (std::int64_t layer = 0; layer < taps.back(); ++layer) {
    x = decoder_layer(model, config, layer, x, mask, rotation);
    if (layer + 1 == taps[tapped.size()]) tapped.push_back(x);
  }
  return ops::concat(model.b(), tapped, -1);
}

}  // namespace dif::frontends
