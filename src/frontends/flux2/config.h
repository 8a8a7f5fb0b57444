#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "dif/status.h"
#include "frontends/blocks/qwen3.h"
#include "frontends/blocks/weight_source.h"
#include "io/json.h"

namespace dif::frontends::flux2 {

/// Flux2Transformer2DModel.
struct TransformerConfig {
  std::int64_t in_channels = 0;  ///< width of a latent token, in and out
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t mlp = 0;  ///< inner width of a block's MLP
  std::int64_t double_blocks = 0;
  std::int64_t single_blocks = 0;
  std::int64_t text_width = 0;  ///< width of a prompt embedding
  std::int64_t time_channels = 256;
  std::array<std::int64_t, 4>
      rope_axes{};  ///< rotated dimensions per axis t, h, w, l; they add up to head_dim
  double rope_theta = 2000;
  float eps = 1e-6f;

  std::int64_t hidden() const { return heads * head_dim; }
};

/// AutoencoderKLFlux2, the decoding half.
struct VaeConfig {
  std::vector<std::int64_t> channels;  ///< of the decoder, per level, from the image inwards
  std::int64_t latent_channels = 0;
  std::int64_t resnets = 0;  ///< per level of the decoder: layers_per_block + 1
  std::int64_t norm_groups = 32;
  std::int64_t image_channels = 3;
  bool mid_attention = true;
  bool post_quant_conv = true;
  float bn_eps = 1e-4f;

  /// Image pixels per latent position, along each axis.
  std::int64_t scale() const { return std::int64_t{1} << (channels.size() - 1); }
};

/// Latents are packed into tokens by 2x2.
inline constexpr std::int64_t kPatch = 2;

/// Reads config.json (nothing: there is none, as beside a creator's single file) and holds it against the
/// shapes. Errors: InvalidInput: missing key, wrong type, absurd size, a variant that is not supported, or a
/// disagreement, naming both sides.
Result<TransformerConfig> read_transformer_config(const io::JsonDocument* config,
                                                  const WeightSource& weights);
Result<VaeConfig> read_vae_config(const io::JsonDocument* config, const WeightSource& weights);

/// The encoding half of the VAE, which its checkpoints hold and decoding does not use.
struct VaeEncoderConfig {
  std::vector<std::int64_t> channels;  ///< per level, from the image inwards
  std::int64_t resnets = 0;            ///< per level
  std::int64_t image_channels = 3;
  bool quant_conv = true;
};

/// What config.json alone says, for a checkpoint that is still to be made. Errors as above, but for shapes.
Result<TransformerConfig> read_transformer_config(const io::JsonDocument& config);
Result<VaeConfig> read_vae_config(const io::JsonDocument& config);
Result<VaeEncoderConfig> read_vae_encoder_config(const io::JsonDocument& config);

/// Whether the three parts belong together: the encoder's `n_taps` hidden states make up the transformer's
/// text width, 2x2 latent positions its tokens. Errors: InvalidInput naming both widths.
Status check_pairing(const TransformerConfig& transformer, const Qwen3Config& text_encoder,
                     const VaeConfig& vae, std::size_t n_taps);

}  // namespace dif::frontends::flux2
