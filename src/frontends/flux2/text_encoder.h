#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "dif/dtype.h"
#include "dif/status.h"
#include "frontends/blocks/qwen3.h"
#include "frontends/flux2/component_files.h"
#include "frontends/model.h"

namespace dif::frontends::flux2 {

/// The text encoder of FLUX.2 [klein] alone: a folder with config.json and the weights of a Qwen3 model. It
/// outlives the stages built from it.
class TextEncoder {
 public:
  /// Errors: NotFound, InvalidInput.
  static Result<TextEncoder> open(const std::filesystem::path& folder);

  /// Chain::encode for prompts of `text_tokens`. Errors: InvalidInput (more than the encoder's positions, a
  /// dtype other than f32 and bf16).
  Result<Stage> build(std::int64_t text_tokens, DType dtype) const;

  /// The layer whose output is the last that the prompt is made of.
  std::int64_t last_layer() const { return taps_.back(); }

 private:
  TextEncoder(ComponentFiles files, Qwen3Config config, std::vector<std::int64_t> taps)
      : files_(std::move(files)), config_(config), taps_(std::move(taps)) {}

  ComponentFiles files_;
  KeyLayout layout_;
  Qwen3Config config_;
  std::vector<std::int64_t> taps_;
};

}  // namespace dif::frontends::flux2
