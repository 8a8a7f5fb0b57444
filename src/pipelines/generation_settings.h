#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dif/dtype.h"
#include "dif/status.h"
#include "io/host_tensor.h"
#include "ir/program.h"
#include "opt/pipeline.h"
#include "pipelines/decoder.h"
#include "pipelines/noise_source.h"
#include "pipelines/operation_times.h"
#include "runtime/execution_options.h"

namespace dif {

/// What one request fixes for all of its pictures; the seed is given per picture.
struct GenerationSettings {
  std::string prompt;
  std::string negative_prompt;  ///< used when guidance is active; diffusers uses the empty text
  std::int64_t width = 0;       ///< pixels
  std::int64_t height = 0;      ///< pixels
  std::int64_t steps = 0;
  float guidance = 1.0f;
  std::int64_t text_tokens = 512;
  DType dtype = DType::kF32;        ///< arithmetic of encoder and denoiser
  DType vae_dtype = DType::kF32;    ///< arithmetic of the decoder
  DType state_dtype = DType::kF32;  ///< what latents are rounded to between steps
  DType noise_dtype = DType::kF32;
  DecodeOptions decode;
  NoiseSource noise_source;
  /// What the programs go through before they are prepared; without: the default for the backend.
  std::optional<opt::Pipeline> passes;
  bool allow_nonfinite = false;
  bool record_plans = false;  ///< ProgramReport::plan is filled in
  /// Where the context's trace events go: told which program runs.
  std::shared_ptr<ProgramTraces> traces;
  /// The tokenizer and the encoder stay, so that encode_prompts() can be asked again.
  bool keep_encoder = false;
  /// The caller's decisions about the denoiser, asked when it is prepared. Empty: none.
  std::function<Result<runtime::ExecutionOptions>(const ir::Program& step)> step_execution;
  /// Under a budget the encoder keeps no weights on the device, so that the denoiser has room for more of its
  /// own.
  bool stream_encoder = false;
  /// What the encoder would give, [1, T, W]: the prompt's, and the negative prompt's when guided. Empty:
  /// encode.
  std::vector<io::HostTensor> conditioning;
  bool strict_prompt = false;  ///< a prompt that does not fit text_tokens is an error, not a warning
  /// Host memory that may be taken; 0 = not known. A chain that needs more is refused before it is prepared.
  std::uint64_t available_bytes = 0;
};

}  // namespace dif
