#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "dif/dtype.h"
#include "dif/status.h"
#include "frontends/constant_set.h"
#include "io/mapped_file.h"
#include "ir/program.h"
#include "text/chat_template.h"

namespace dif::frontends {

/// What a user gets when an option is absent: from the family's row, overridden by dif-defaults.json of the
/// model.
struct GenerationDefaults {
  std::int64_t width = 1024;
  std::int64_t height = 1024;
  std::int64_t steps = 50;
  float guidance = 4.0f;
  std::int64_t text_tokens = 512;
};

/// One geometry of a chain. Other numbers here mean other programs.
struct ChainRequest {
  std::int64_t width = 0;   ///< pixels, a multiple of Model::size_multiple()
  std::int64_t height = 0;  ///< pixels
  std::int64_t steps = 0;   ///< rows of the schedule tables
  /// Classifier-free guidance: with it the step program takes two prompts and combines the two velocities.
  std::optional<float> guidance;
  std::int64_t text_tokens = 512;
  DType dtype = DType::kF32;      ///< encoder and denoiser arithmetic
  DType vae_dtype = DType::kF32;  ///< decoder arithmetic
  /// What the latents are rounded to between steps; programs pass them as f32 in any case.
  DType state_dtype = DType::kF32;
};

/// A program and the constants that it binds.
struct Stage {
  ir::Program program;
  ConstantSet constants;
};

/// The programs of one picture. Their inputs and outputs:
///   encode  input_ids i32 [1, T], attention_mask bool [1, T]           -> prompt_embeds dtype [1, T, W]
///   step    latents f32 [1, S, C], prompt_embeds [1, T, W], (guided: negative_prompt_embeds [1, T, W],)
///           step i32 [1]                                               -> latents f32 [1, S, C]
///   decode  latents f32 [1, S, C]                                      -> image f32 [1, 3, height, width],
///   about [-1, 1]
/// The step program binds the tables schedule.model_time f32 [steps] and schedule.delta_sigma f32 [steps, 1],
/// which the pipeline adds to its ConstantSet. Noise is drawn as [1, C, rows, columns] and packed to [1,
/// rows*columns, C].
struct Chain {
  Stage encode;
  Stage step;
  Stage decode;
  std::int64_t latent_channels = 0;  ///< C
  std::int64_t latent_rows = 0;
  std::int64_t latent_columns = 0;
};

/// An opened and validated model directory of one family: configurations, checkpoints (mapped), shapes. It
/// outlives the chains built from it.
class Model {
 public:
  virtual ~Model() = default;

  virtual std::string name() const = 0;    ///< folder name, for people
  virtual std::string family() const = 0;  ///< row of families.def
  virtual GenerationDefaults defaults() const = 0;
  /// Whether guidance is part of what the model was trained for (false for a distilled one).
  virtual bool supports_guidance() const = 0;
  /// Width and height must be multiples of this.
  virtual std::int64_t size_multiple() const = 0;
  virtual text::ChatTemplate chat_template() const = 0;
  virtual std::filesystem::path tokenizer_folder() const = 0;
  virtual std::filesystem::path scheduler_config() const = 0;
  /// SHA-256 over the checkpoint files' digests, hex; reads every byte once, or until `stop` (kCancelled).
  virtual Result<std::string> digest(const std::stop_token& stop) const = 0;
  Result<std::string> digest() const { return digest({}); }
  /// The checkpoint files, in the order of their digests.
  virtual std::vector<const io::MappedFile*> files() const = 0;
  /// SIGBUS guard: whether every mapped file is still whole.
  virtual Status check_files() const = 0;
  virtual Result<Chain> build(const ChainRequest& request) const = 0;
};

/// Checkpoints to read instead of the folder's own: one file each, in any layout that a folder may hold.
/// Empty: the folder's.
struct ModelFiles {
  std::filesystem::path transformer, vae;
};

/// Recognises the directory (a row of families.def) and opens it. Errors: NotFound, InvalidInput.
Result<std::unique_ptr<Model>> open_model(const std::filesystem::path& folder, const ModelFiles& files = {});

}  // namespace dif::frontends
