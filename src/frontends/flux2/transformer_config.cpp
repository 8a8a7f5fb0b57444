#include "base/error.h"
#include "base/format.h"
#include "frontends/blocks/shape_audit.h"
#include "frontends/flux2/config.h"

namespace dif::frontends::flux2 {

namespace {

constexpr io::IntegerRange kWidth{1, 1 << 20};
constexpr io::IntegerRange kCount{1, 1024};
constexpr io::IntegerRange kBlocks{0, 1024};

/// What config.json says; nothing where there is no config.json.
struct Claims {
  std::optional<std::int64_t> in_channels, out_channels, heads, head_dim, double_blocks, single_blocks,
      text_width, time_channels;
  double mlp_ratio = 3.0;
  std::optional<std::vector<std::int64_t>> rope_axes;
  double rope_theta = 2000;
  double eps = 1e-6;
};

void refuse_variants(io::ConfigReader& config) {
  if (config.boolean_or("guidance_embeds", false))
    config.problem("guidance_embeds",
                   "false (FLUX.2 klein; FLUX.2 dev with its guidance embedding is not supported)", "true");
  if (const std::int64_t patch = config.integer_or("patch_size", 1); patch != 1)
    config.problem("patch_size", "1", std::to_string(patch));
}

Result<Claims> read_claims(const io::JsonDocument& document) {
  io::ConfigReader config(document);
  Claims c;
  c.in_channels = config.integer("in_channels", kWidth);
  c.out_channels = config.integer_or("out_channels", *c.in_channels, kWidth);
  c.heads = config.integer("num_attention_heads", kCount);
  c.head_dim = config.integer("attention_head_dim", {2, 4096});
  c.double_blocks = config.integer("num_layers", kBlocks);
  c.single_blocks = config.integer("num_single_layers", kBlocks);
  c.text_width = config.integer("joint_attention_dim", kWidth);
  c.time_channels = config.integer_or("timestep_guidance_channels", 256, {2, 65536});
  c.mlp_ratio = config.number_or("mlp_ratio", 3.0);
  c.rope_axes = config.integers_or("axes_dims_rope", {32, 32, 32, 32}, {2, 4096});
  c.rope_theta = config.number_or("rope_theta", 2000);
  c.eps = config.number_or("eps", 1e-6);
  refuse_variants(config);
  if (!(c.mlp_ratio > 0 && c.mlp_ratio <= 64))
    config.problem("mlp_ratio", "a number over 0, at most 64", fmt::format("{}", c.mlp_ratio));
  if (!(c.rope_theta > 1)) config.problem("rope_theta", "a number over 1", fmt::format("{}", c.rope_theta));
  if (!(c.eps >= 0 && c.eps < 1)) config.problem("eps", "a number from 0 to 1", fmt::format("{}", c.eps));
  DIF_TRY(config.finish());
  return c;
}

/// The width inside a block's MLP. diffusers truncates hidden * mlp_ratio.
std::int64_t mlp_width(ShapeAudit& audit, const WeightSource& weights, const TransformerConfig& c,
                       std::int64_t hidden, std::optional<double> ratio) {
  constexpr std::string_view kKey = "the MLP's width (hidden * mlp_ratio)";
  std::optional<std::int64_t> claimed;
  if (ratio) claimed = static_cast<std::int64_t>(static_cast<double>(hidden) * *ratio);
  if (c.double_blocks > 0)
    return audit.dimension(kKey, claimed, "transformer_blocks.0.ff.linear_out.weight", 1);
  constexpr std::string_view kFused = "single_transformer_blocks.0.attn.to_out.weight";
  const std::optional<Shape> fused = weights.shape(kFused);
  if (!fused || fused->rank() != 2) return claimed.value_or(0);
  return audit.derived(kKey, claimed, kFused, fused->dim(1) - hidden);
}

/// The configuration decides, or the symmetric split that every published model has.
Result<std::array<std::int64_t, 4>> rope_axes(const Claims& claims, std::int64_t head_dim,
                                              const std::string& config) {
  const std::vector<std::int64_t> dims =
      claims.rope_axes.value_or(std::vector<std::int64_t>(4, head_dim / 4));
  std::int64_t sum = 0;
  bool even = true;
  for (const std::int64_t dim : dims) {
    sum += dim;
    even = even && dim % 2 == 0;
  }
  if (dims.size() != 4 || sum != head_dim || !even)
    return invalid_input(
        "{}: key axes_dims_rope: expected 4 even numbers that add up to the head width {}, found [{}]",
        config, head_dim, fmt::join(dims, ", "));
  return std::array{dims[0], dims[1], dims[2], dims[3]};
}

}  // namespace

Result<TransformerConfig> read_transformer_config(const io::JsonDocument& document) {
  DIF_ASSIGN(const Claims claims, read_claims(document));
  TransformerConfig c;
  c.in_channels = *claims.in_channels;
  c.heads = *claims.heads;
  c.head_dim = *claims.head_dim;
  c.mlp = static_cast<std::int64_t>(static_cast<double>(c.hidden()) * claims.mlp_ratio);
  c.double_blocks = *claims.double_blocks;
  c.single_blocks = *claims.single_blocks;
  c.text_width = *claims.text_width;
  c.time_channels = *claims.time_channels;
  c.rope_theta = claims.rope_theta;
  c.eps = static_cast<float>(claims.eps);
  if (claims.out_channels != claims.in_channels)
    return invalid_input("{}: key out_channels: expected in_channels = {}, found {}", document.source(),
                         *claims.in_channels, *claims.out_channels);
  if (c.double_blocks + c.single_blocks == 0)
    return invalid_input("{}: num_layers and num_single_layers are both 0: a transformer has blocks",
                         document.source());
  if (c.mlp < 1 || c.time_channels % 2 != 0)
    return invalid_input(
        "{}: an MLP {} wide and {} timestep_guidance_channels: expected at least 1, and an even number",
        document.source(), c.mlp, c.time_channels);
  DIF_ASSIGN(c.rope_axes, rope_axes(claims, c.head_dim, document.source()));
  return c;
}

Result<TransformerConfig> read_transformer_config(const io::JsonDocument* document,
                                                  const WeightSource& weights) {
  const std::string source =
      document != nullptr ? document->source() : weights.label() + " (without config.json)";
  Claims claims;
  if (document != nullptr) {
    DIF_ASSIGN(claims, read_claims(*document));
  }
  if (weights.has("time_guidance_embed.guidance_embedder.linear_1.weight"))
    return invalid_input(
        "{} holds a guidance embedding ({}): this is FLUX.2 dev, which is not supported; FLUX.2 klein is",
        weights.label(), weights.locate("time_guidance_embed.guidance_embedder.linear_1.weight").name);

  ShapeAudit audit(weights, source);
  TransformerConfig c;
  c.double_blocks =
      audit.blocks("num_layers", claims.double_blocks,
                   {"transformer_blocks.#.attn.norm_q.weight", "transformer_blocks.#.attn.to_out.0.weight"});
  c.single_blocks = audit.blocks(
      "num_single_layers", claims.single_blocks,
      {"single_transformer_blocks.#.attn.norm_q.weight", "single_transformer_blocks.#.attn.to_out.weight"});
  const std::string_view norm = c.double_blocks > 0 ? "transformer_blocks.0.attn.norm_q.weight"
                                                    : "single_transformer_blocks.0.attn.norm_q.weight";
  c.head_dim = audit.dimension("attention_head_dim", claims.head_dim, norm, 0);
  std::optional<std::int64_t> claimed_hidden;
  if (claims.heads) claimed_hidden = *claims.heads * *claims.head_dim;
  const std::int64_t hidden =
      audit.dimension("num_attention_heads * attention_head_dim", claimed_hidden, "x_embedder.weight", 0);
  c.in_channels = audit.dimension("in_channels", claims.in_channels, "x_embedder.weight", 1);
  audit.dimension("out_channels", claims.out_channels, "proj_out.weight", 0);
  c.text_width = audit.dimension("joint_attention_dim", claims.text_width, "context_embedder.weight", 1);
  c.time_channels = audit.dimension("timestep_guidance_channels", claims.time_channels,
                                    "time_guidance_embed.timestep_embedder.linear_1.weight", 1);
  c.mlp = mlp_width(audit, weights, c, hidden,
                    document != nullptr ? std::optional(claims.mlp_ratio) : std::nullopt);
  DIF_TRY(audit.finish());

  if (c.double_blocks + c.single_blocks == 0)
    return invalid_input("{} holds no transformer block: neither {} nor {}", weights.label(),
                         weights.locate("transformer_blocks.0.attn.norm_q.weight").name,
                         weights.locate("single_transformer_blocks.0.attn.norm_q.weight").name);
  if (c.head_dim < 2 || c.head_dim % 2 != 0 || hidden % c.head_dim != 0)
    return invalid_input("{}: a hidden width of {} is not made of heads {} wide", weights.label(), hidden,
                         c.head_dim);
  if (claims.out_channels && *claims.out_channels != c.in_channels)
    return invalid_input("{}: key out_channels: expected in_channels = {}, found {}", source, c.in_channels,
                         *claims.out_channels);
  if (c.time_channels % 2 != 0)
    return invalid_input("{}: key timestep_guidance_channels: expected an even number, found {}", source,
                         c.time_channels);
  c.heads = hidden / c.head_dim;
  DIF_ASSIGN(c.rope_axes, rope_axes(claims, c.head_dim, source));
  c.rope_theta = claims.rope_theta;
  c.eps = static_cast<float>(claims.eps);
  return c;
}

}  // namespace dif::frontends::flux2
