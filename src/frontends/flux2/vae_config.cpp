#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "frontends/blocks/shape_audit.h"
#include "frontends/flux2/config.h"

namespace dif::frontends::flux2 {

namespace {

constexpr io::IntegerRange kChannels{1, 65536};
constexpr std::size_t kMaxLevels = 8;

struct Claims {
  std::optional<std::vector<std::int64_t>> channels;
  std::optional<std::int64_t> latent_channels, layers_per_block, image_channels;
  std::optional<bool> mid_attention, post_quant_conv;
  std::int64_t norm_groups = 32;
  double bn_eps = 1e-4;
};

void refuse_variants(io::ConfigReader& config, std::size_t levels) {
  if (const std::string act = config.string_or("act_fn", "silu"); act != "silu")
    config.problem("act_fn", "silu", act);
  if (const auto patch = config.integers_or("patch_size", {kPatch, kPatch});
      patch != std::vector<std::int64_t>{kPatch, kPatch})
    config.problem("patch_size", "[2, 2]", fmt::format("[{}]", fmt::join(patch, ", ")));
  const auto blocks =
      config.strings_or("up_block_types", std::vector<std::string>(levels, "UpDecoderBlock2D"));
  if (blocks != std::vector<std::string>(levels, "UpDecoderBlock2D"))
    config.problem("up_block_types", fmt::format("{} times UpDecoderBlock2D, one per level", levels),
                   fmt::format("[{}]", fmt::join(blocks, ", ")));
}

Result<Claims> read_claims(const io::JsonDocument& document) {
  io::ConfigReader config(document);
  Claims c;
  const std::vector<std::int64_t> encoder = config.integers("block_out_channels", kChannels);
  // A decoder of its own is as deep as the encoder but may be narrower.
  c.channels = config.integers_or("decoder_block_out_channels", encoder, kChannels);
  c.latent_channels = config.integer("latent_channels", kChannels);
  c.layers_per_block = config.integer("layers_per_block", {1, 64});
  c.image_channels = config.integer_or("out_channels", 3, {1, 64});
  c.norm_groups = config.integer_or("norm_num_groups", 32, kChannels);
  c.mid_attention = config.boolean_or("mid_block_add_attention", true);
  c.post_quant_conv = config.boolean_or("use_post_quant_conv", true);
  c.bn_eps = config.number_or("batch_norm_eps", 1e-4);
  DIF_TRY(config.finish());

  if (encoder.empty() || encoder.size() > kMaxLevels)
    config.problem("block_out_channels", fmt::format("1 to {} levels", kMaxLevels),
                   fmt::format("{}", encoder.size()));
  if (c.channels->size() != encoder.size())
    config.problem("decoder_block_out_channels",
                   fmt::format("{} levels, as block_out_channels has", encoder.size()),
                   fmt::format("{}", c.channels->size()));
  for (const std::int64_t width : *c.channels)
    if (width % c.norm_groups != 0)
      config.problem("norm_num_groups", fmt::format("a divisor of the channel count {}", width),
                     std::to_string(c.norm_groups));
  if (c.image_channels != 3) config.problem("out_channels", "3", std::to_string(*c.image_channels));
  if (!(c.bn_eps >= 0 && c.bn_eps < 1))
    config.problem("batch_norm_eps", "a number from 0 to 1", fmt::format("{}", c.bn_eps));
  refuse_variants(config, encoder.size());
  DIF_TRY(config.finish());
  return c;
}

}  // namespace

Result<VaeConfig> read_vae_config(const io::JsonDocument& document) {
  DIF_ASSIGN(const Claims claims, read_claims(document));
  VaeConfig c;
  c.channels = claims.channels.value();
  c.latent_channels = *claims.latent_channels;
  c.resnets = *claims.layers_per_block + 1;
  c.norm_groups = claims.norm_groups;
  c.image_channels = *claims.image_channels;
  c.mid_attention = *claims.mid_attention;
  c.post_quant_conv = *claims.post_quant_conv;
  c.bn_eps = static_cast<float>(claims.bn_eps);
  return c;
}

Result<VaeEncoderConfig> read_vae_encoder_config(const io::JsonDocument& document) {
  io::ConfigReader config(document);
  VaeEncoderConfig c;
  c.channels = config.integers("block_out_channels", kChannels);
  c.resnets = config.integer("layers_per_block", {1, 64});
  c.image_channels = config.integer_or("in_channels", 3, {1, 64});
  c.quant_conv = config.boolean_or("use_quant_conv", true);
  const std::vector<std::string> plain(c.channels.size(), "DownEncoderBlock2D");
  if (config.strings_or("down_block_types", plain) != plain)
    config.problem("down_block_types",
                   fmt::format("{} times DownEncoderBlock2D, one per level", plain.size()), "something else");
  const std::int64_t groups = config.integer_or("norm_num_groups", 32, kChannels);
  for (const std::int64_t width : c.channels)
    if (groups > 0 && width % groups != 0)
      config.problem("norm_num_groups", fmt::format("a divisor of the channel count {}", width),
                     std::to_string(groups));
  DIF_TRY(config.finish());
  return c;
}

Result<VaeConfig> read_vae_config(const io::JsonDocument* document, const WeightSource& weights) {
  const std::string source =
      document != nullptr ? document->source() : weights.label() + " (without config.json)";
  Claims claims;
  if (document != nullptr) {
    DIF_ASSIGN(claims, read_claims(*document));
  }
  ShapeAudit audit(weights, source);
  VaeConfig c;
  std::optional<std::int64_t> claimed_levels, claimed_resnets;
  if (claims.channels) claimed_levels = static_cast<std::int64_t>(claims.channels->size());
  if (claims.layers_per_block) claimed_resnets = *claims.layers_per_block + 1;
  const std::int64_t levels = audit.blocks("the number of levels (block_out_channels)", claimed_levels,
                                           {"decoder.up_blocks.#.resnets.0.conv1.weight"});
  c.resnets = audit.blocks("the number of resnets per level (layers_per_block + 1)", claimed_resnets,
                           {"decoder.up_blocks.0.resnets.#.conv1.weight"});
  c.channels.resize(static_cast<std::size_t>(levels));
  for (std::int64_t block = 0; block < levels; ++block) {
    const auto level = static_cast<std::size_t>(levels - 1 - block);
    std::optional<std::int64_t> claimed;
    if (claims.channels && level < claims.channels->size()) claimed = claims.channels->at(level);
    c.channels[level] = audit.dimension(fmt::format("decoder channels of level {}", level), claimed,
                                        with_number("decoder.up_blocks.#.resnets.0.conv1.weight", block), 0);
  }
  c.latent_channels = audit.dimension("latent_channels", claims.latent_channels, "decoder.conv_in.weight", 1);
  c.image_channels = audit.dimension("out_channels", claims.image_channels, "decoder.conv_out.weight", 0);
  c.mid_attention = audit.part("mid_block_add_attention", claims.mid_attention,
                               "decoder.mid_block.attentions.0.to_q.weight");
  c.post_quant_conv = audit.part("use_post_quant_conv", claims.post_quant_conv, "post_quant_conv.weight");
  DIF_TRY(audit.finish());

  if (c.channels.empty() || c.channels.size() > kMaxLevels)
    return invalid_input("{} holds {} levels of a decoder ({}), expected 1 to {}", weights.label(),
                         c.channels.size(), weights.locate("decoder.up_blocks.0.resnets.0.conv1.weight").name,
                         kMaxLevels);
  if (c.image_channels != 3)
    return invalid_input("{}: the decoder gives {} channels, expected 3", weights.label(), c.image_channels);
  for (const std::int64_t width : c.channels)
    if (width % claims.norm_groups != 0)
      return invalid_input("{}: {} groups do not divide {} channels; config.json says norm_num_groups",
                           source, claims.norm_groups, width);
  c.norm_groups = claims.norm_groups;
  c.bn_eps = static_cast<float>(claims.bn_eps);
  return c;
}

Status check_pairing(const TransformerConfig& transformer, const Qwen3Config& text_encoder,
                     const VaeConfig& vae, std::size_t n_taps) {
  const auto text_width = static_cast<std::int64_t>(n_taps) * text_encoder.hidden;
  if (transformer.text_width != text_width)
    return invalid_input(
        "the parts of this model do not belong together: the transformer reads prompts {} wide "
        "(joint_attention_dim), the text encoder gives {} ({} x hidden_size {})",
        transformer.text_width, text_width, n_taps, text_encoder.hidden);
  const std::int64_t token = kPatch * kPatch * vae.latent_channels;
  if (transformer.in_channels != token)
    return invalid_input(
        "the parts of this model do not belong together: the transformer's latents are {} wide "
        "(in_channels), the "
        "VAE decodes {} (2 x 2 x latent_channels {})",
        transformer.in_channels, token, vae.latent_channels);
  return ok();
}

}  // namespace dif::frontends::flux2
