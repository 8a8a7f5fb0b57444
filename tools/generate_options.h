#pragma once

#include <cstdint>
#include <string>

#include "cli/command.h"
#include "pipelines/decoder.h"

namespace dif::tools {

/// What the user of `dif generate` said; an absent option falls back to --from's record, then to the model's
/// defaults.
struct GenerateOptions {
  explicit GenerateOptions(cli::Command& command);

  std::string prompt, negative_prompt, model, output = "out.png", from;
  std::string seed, noise_dtype = "f32", rng = "torch-cpu";
  std::string save_latents, init_latents, emit_programs, fit = "exact", passes = "default", decode = "auto";
  std::int64_t steps = 0, batch = 1, text_tokens = 0, repeat = 0;
  std::int64_t tile_size = DecodeOptions().tile_size, tile_overlap = DecodeOptions().tile_overlap;
  double guidance = 0;
  std::string size;
  std::string plan_out;
  bool no_metadata = false, allow_nonfinite = false, strict_prompt = false, why = false, dry_run = false,
       trace_ops = false;
};

}  // namespace dif::tools
