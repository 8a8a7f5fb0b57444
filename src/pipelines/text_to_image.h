#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dif/status.h"
#include "frontends/model.h"
#include "io/host_tensor.h"
#include "io/image.h"
#include "pipelines/chain_programs.h"
#include "pipelines/generation_settings.h"
#include "pipelines/operation_times.h"
#include "runtime/session.h"

namespace dif {

/// Told what happens, for progress bars and warnings. Every member may be empty.
struct GenerationObserver {
  std::function<void(std::string_view stage, std::uint64_t total, std::string_view unit)> begin;
  std::function<void(std::uint64_t done)> advance;
  std::function<void()> end;
  std::function<void(std::string_view sentence)> warn;
};

struct StageTime {
  std::string stage;
  double seconds = 0;
};

/// What the programs of a chain share: what their plans need at the most, and what the context holds.
struct SharedMemory {
  std::uint64_t predicted_arena_bytes = 0;
  std::uint64_t arena_bytes = 0;
  std::uint64_t predicted_workspace_bytes = 0;
  std::uint64_t workspace_bytes = 0;
  std::uint64_t device_peak_bytes = 0;  ///< everything that the context had at one time; 0: not counted
};

/// Which steps of the schedule a draw takes, for looking into a run.
struct StepRange {
  std::int64_t first = 0;
  std::int64_t end = 0;  ///< one past the last; 0: all
  /// Told the latents, f32 packed [1, S, C], after each step.
  std::function<void(std::int64_t step, std::span<const float> latents)> after_step;
};

struct Picture {
  io::Image image;         ///< RGB
  io::HostTensor latents;  ///< f32 [1, S, C], what was decoded
  std::uint64_t seed = 0;
};

/// Prompt to picture on one context: tokenise, encode once, then denoise and decode per seed. The programs go
/// through the passes first; where a value is not finite, the program as the frontend built it is run to find
/// the first one.
class TextToImage {
 public:
  /// Validates the settings, builds and prepares the programs, encodes the prompts. `model` outlives the
  /// result. Errors: InvalidInput (size off the grid: names the nearest legal ones; steps; prompt),
  /// Unavailable, OutOfMemory (names what is needed and what is there).
  static Result<std::unique_ptr<TextToImage>> create(const frontends::Model& model,
                                                     std::shared_ptr<runtime::Context> context,
                                                     const GenerationSettings& settings,
                                                     const GenerationObserver& observer);
  ~TextToImage();

  /// One picture. `init_latents` replaces the noise: f32 packed [1, S, C] or as drawn [1, C, rows, columns].
  /// A range that ends early decodes the latents as they are then. Errors also: InvalidInput (a range outside
  /// of the schedule).
  Result<Picture> draw(std::uint64_t seed, const io::HostTensor* init_latents = nullptr,
                       const StepRange& range = {});
  /// Tokenises and encodes the prompts once more. Pre: settings.keep_encoder.
  Status encode_prompts();

  /// What the denoiser is given, in its dtype [1, T, W]: of the prompt, then of the negative one when guided.
  Result<std::vector<io::HostTensor>> prompt_embeds() const;
  /// The latents that a draw starts from, f32 packed [1, S, C].
  Result<io::HostTensor> initial_latents(std::uint64_t seed) const;

  /// True when each step evaluates two prompts.
  bool guided() const;
  const std::vector<StageTime>& times() const;
  const std::vector<ProgramReport>& programs() const;
  /// Of one of programs(), slowest first; of a decode in slabs, those of its first program. Empty without
  /// settings.traces.
  std::vector<OperationTime> operation_times(const ProgramReport& program) const;
  /// Of one of decoder().parts().
  std::vector<OperationTime> operation_times(const DecodePart& part) const;
  Result<SharedMemory> memory() const;
  /// What the device did for the last denoising, all its steps.
  runtime::LaunchCounts denoise_launches() const;
  std::int64_t prompt_tokens() const;
  /// Which way pictures are decoded, and why.
  const Decoder& decoder() const;

 private:
  class Implementation;
  explicit TextToImage(std::unique_ptr<Implementation> implementation);
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace dif
