#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>

#include "dif/dtype.h"
#include "dif/status.h"
#include "frontends/blocks/weight_source.h"
#include "frontends/flux2/component_files.h"
#include "frontends/flux2/config.h"
#include "frontends/model.h"

namespace dif::frontends::flux2 {

/// How much of a transformer a program of its own takes in.
struct RowCounts {
  std::int64_t batch = 1;
  std::int64_t image = 0;  ///< latent tokens
  std::int64_t text = 0;   ///< prompt tokens
};

/// The transformer of FLUX.2 in one checkpoint file, in diffusers' or the creator's layout, with the
/// config.json beside it if there is one. Programs are of parts of it; their inputs have the names of
/// diffusers' arguments, their outputs those of its modules. All take rotary_cos and rotary_sin, f32 [text +
/// image, head_dim / 2]. It outlives the stages.
class TransformerFile {
 public:
  static Result<TransformerFile> open(const std::filesystem::path& file);

  /// hidden_states [B, image, C], encoder_hidden_states [B, text, C], temb_mod_img and temb_mod_txt [1, 6 C]
  /// -> transformer.transformer_blocks.N.out1 (image) and .out0 (text). Errors: InvalidInput (no such block).
  Result<Stage> double_block(std::int64_t number, const RowCounts& rows, DType dtype) const;
  /// hidden_states [B, text + image, C], temb_mod [1, 3 C] -> transformer.single_transformer_blocks.N.
  Result<Stage> single_block(std::int64_t number, const RowCounts& rows, DType dtype) const;
  /// The first blocks of each kind, with what is before and behind them: hidden_states [B, image, channels],
  /// encoder_hidden_states [B, text, width], timestep f32 [1] from 0 to 1 -> transformer.proj_out.
  Result<Stage> transformer(std::int64_t double_depth, std::int64_t single_depth, const RowCounts& rows,
                            DType dtype) const;

  const TransformerConfig& config() const { return config_; }

 private:
  TransformerFile(ComponentFiles files, std::unique_ptr<KeyLayout> layout, TransformerConfig config)
      : files_(std::move(files)), layout_(std::move(layout)), config_(config) {}
  WeightSource weights() const { return {files_.checkpoint, *layout_}; }

  ComponentFiles files_;
  std::unique_ptr<KeyLayout> layout_;
  TransformerConfig config_;
};

/// The autoencoder likewise.
class VaeFile {
 public:
  static Result<VaeFile> open(const std::filesystem::path& file);

  /// latents [1, latent channels, height, width], as the decoder takes them -> vae.decoder, f32 [1, 3, ...].
  Result<Stage> decoder(std::int64_t height, std::int64_t width, DType dtype) const;

 private:
  VaeFile(ComponentFiles files, std::unique_ptr<KeyLayout> layout, VaeConfig config)
      : files_(std::move(files)), layout_(std::move(layout)), config_(std::move(config)) {}

  ComponentFiles files_;
  std::unique_ptr<KeyLayout> layout_;
  VaeConfig config_;
};

}  // namespace dif::frontends::flux2
