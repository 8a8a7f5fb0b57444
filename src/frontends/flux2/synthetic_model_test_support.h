#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace dif::frontends::flux2::test {

/// A tensor of a made-up checkpoint; without bytes it is a hole in a sparse file, so that a checkpoint of any
/// size costs its header only.
struct TestTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::string dtype = "BF16";
  std::vector<std::uint16_t> values = {};  ///< BF16 bits, or nothing
};
using TensorList = std::vector<TestTensor>;

/// Writes a safetensors file, sparse where tensors have no values.
void write_checkpoint(const std::filesystem::path& path, const TensorList& tensors);
void write_text(const std::filesystem::path& path, const std::string& text);

/// The sizes of a made-up model.
struct Sizes {
  // transformer
  std::int64_t heads, head_dim, double_blocks, single_blocks, mlp;
  // text encoder
  std::int64_t hidden, layers, text_heads, kv_heads, text_head_dim, text_mlp, vocabulary;
  bool tied;
  // VAE
  std::int64_t latent_channels;
  std::vector<std::int64_t> encoder_channels, decoder_channels;
  std::int64_t layers_per_block, norm_groups;
  bool mid_attention = true, post_quant_conv = true;

  std::int64_t width() const { return heads * head_dim; }
  std::int64_t in_channels() const { return 4 * latent_channels; }
  std::int64_t text_width() const { return 3 * hidden; }
};

Sizes small_sizes();  ///< kilobytes
Sizes klein_4b_sizes();
Sizes klein_9b_sizes();

/// Names and shapes as published, in diffusers' and in the creator's layout (models.md, 1.1, 1.3, 1.4, 1.5).
TensorList transformer_tensors(const Sizes& sizes);
TensorList creator_transformer_tensors(const Sizes& sizes);
TensorList text_encoder_tensors(const Sizes& sizes);
TensorList vae_tensors(const Sizes& sizes);
TensorList creator_vae_tensors(const Sizes& sizes);

/// A model folder to be written; tests change what they need first.
struct SyntheticModel {
  explicit SyntheticModel(const Sizes& sizes);

  nlohmann::json index, transformer_config, text_encoder_config, vae_config;
  TensorList transformer, text_encoder, vae;

  /// Writes everything below `folder`, which must exist.
  void write(const std::filesystem::path& folder) const;
};

}  // namespace dif::frontends::flux2::test
