#include <charconv>

#include "base/error.h"
#include "frontends/blocks/qwen3.h"
#include "frontends/blocks/shape_audit.h"

namespace dif::frontends {

namespace {

constexpr io::IntegerRange kWidth{1, 1 << 20};
constexpr io::IntegerRange kCount{1, 1024};

/// The settings that this frontend emits in one way only.
void refuse_variants(io::ConfigReader& config) {
  if (config.boolean_or("attention_bias", false))
    config.problem("attention_bias", "false (projections without bias)", "true");
  if (config.boolean_or("use_sliding_window", false))
    config.problem("use_sliding_window", "false (every layer sees all positions)", "true");
  if (const std::string act = config.string_or("hidden_act", "silu"); act != "silu")
    config.problem("hidden_act", "silu", act);
  if (auto scaling = config.object_or_none("rope_scaling")) {
    const std::string type = scaling->string_or("rope_type", scaling->string_or("type", "default"));
    if (type != "default") scaling->problem("rope_type", "default (no scaling of positions)", type);
  }
}

/// transformers 5 writes rope_parameters.rope_theta, earlier versions rope_theta.
double rope_theta(io::ConfigReader& config) {
  auto parameters = config.object_or_none("rope_parameters");
  if (!parameters) return config.number("rope_theta");
  if (const std::string type = parameters->string_or("rope_type", "default"); type != "default")
    parameters->problem("rope_type", "default (no scaling of positions)", type);
  return parameters->number("rope_theta");
}

}  // namespace

Result<Qwen3Config> read_qwen3_config(const io::JsonDocument& document, std::int64_t last_layer) {
  io::ConfigReader config(document);
  Qwen3Config c;
  c.vocabulary = config.integer("vocab_size", {1, 1 << 24});
  c.hidden = config.integer("hidden_size", kWidth);
  c.layers = config.integer("num_hidden_layers", kCount);
  c.heads = config.integer("num_attention_heads", kCount);
  c.kv_heads = config.integer("num_key_value_heads", kCount);
  c.head_dim = config.integer_or("head_dim", 128, {2, 4096});
  c.mlp = config.integer("intermediate_size", kWidth);
  c.max_positions = config.integer_or("max_position_embeddings", 32768, {1, 1 << 24});
  const double eps = config.number_or("rms_norm_eps", 1e-6);
  c.rope_theta = rope_theta(config);
  refuse_variants(config);
  DIF_TRY(config.finish());

  if (c.heads % c.kv_heads != 0)
    config.problem("num_attention_heads", fmt::format("a multiple of num_key_value_heads = {}", c.kv_heads),
                   std::to_string(c.heads));
  if (c.head_dim % 2 != 0) config.problem("head_dim", "an even number", std::to_string(c.head_dim));
  if (!(eps >= 0 && eps < 1)) config.problem("rms_norm_eps", "a number from 0 to 1", std::to_string(eps));
  if (!(c.rope_theta > 1)) config.problem("rope_theta", "a number over 1", std::to_string(c.rope_theta));
  if (c.layers < last_layer)
    config.problem("num_hidden_layers",
                   fmt::format("at least {} (the prompt is read after that layer)", last_layer),
                   std::to_string(c.layers));
  DIF_TRY(config.finish());
  c.eps = static_cast<float>(eps);
  return c;
}

Result<Qwen3Config> read_qwen3_config(const io::JsonDocument& document, const WeightSource& weights,
                                      std::int64_t last_layer) {
  DIF_ASSIGN(const Qwen3Config c, read_qwen3_config(document, last_layer));
  ShapeAudit audit(weights, document.source());
  const std::string layer = "model.layers.0.";
  audit.blocks("num_hidden_layers", c.layers,
               {"model.layers.#.input_layernorm.weight", "model.layers.#.self_attn.q_proj.weight"});
  audit.dimension("vocab_size", c.vocabulary, "model.embed_tokens.weight", 0);
  audit.dimension("hidden_size", c.hidden, "model.embed_tokens.weight", 1);
  audit.dimension("head_dim", c.head_dim, layer + "self_attn.q_norm.weight", 0);
  audit.dimension("num_attention_heads * head_dim", c.heads * c.head_dim, layer + "self_attn.q_proj.weight",
                  0);
  audit.dimension("num_key_value_heads * head_dim", c.kv_heads * c.head_dim,
                  layer + "self_attn.k_proj.weight", 0);
  audit.dimension("intermediate_size", c.mlp, layer + "mlp.gate_proj.weight", 0);
  DIF_TRY(audit.finish());
  return c;
}

bool qwen3_may_be_unused(std::string_view name, std::int64_t layers) {
  if (name.starts_with("lm_head.") || name == "model.norm.weight") return true;
  constexpr std::string_view kLayers = "model.layers.";
  if (!name.starts_with(kLayers)) return false;
  name.remove_prefix(kLayers.size());
  std::int64_t number = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  return error == std::errc{} && end != name.data() + name.size() && *end == '.' && number >= layers;
}

}  // namespace dif::frontends
