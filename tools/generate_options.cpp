#include "generate_options.h"

#include "cli/options.h"
#include "frontends/family.h"

namespace dif::tools {

namespace {

constexpr std::int64_t kMaxBatch = 10000;
constexpr std::int64_t kMaxRepeats = 10000;

}  // namespace

GenerateOptions::GenerateOptions(cli::Command& command) {
  command.add_option("prompt", prompt, "what the picture shows");
  command
      .add_option("-m,--model", model,
                  "model directory in the diffusers layout (default: the bundled emoji-klein)")
      .expect_name();
  command.add_option("-o,--output", output, "PNG to write; a batch writes NAME-0.png, NAME-1.png, ...")
      .show_default()
      .expect_name();
  command.add_option("--negative-prompt", negative_prompt, "what guidance steers away from");
  command.add_option("--seed", seed,
                     "0 to 2^64-1, -1 draws one (default 42); picture i of a batch uses seed + i");
  command.add_option("--steps", steps, "denoising steps (default: the model's)")
      .expect_whole(1, frontends::kMaxSteps);
  command
      .add_option("--guidance", guidance,
                  "guidance scale; up to 1 means one evaluation a step (default: the model's)")
      .expect_number(0, frontends::kMaxGuidance);
  command.add_option("--size", size, "WIDTHxHEIGHT in pixels (default: the model's)");
  command
      .add_option(
          "--fit", fit,
          "a size that the model cannot draw: exact refuses it, round takes the nearest, pad draws the next "
          "larger and keeps its middle")
      .show_default()
      .expect_one_of({"exact", "round", "pad"});
  command.add_option("--batch", batch, "number of pictures").show_default().expect_whole(1, kMaxBatch);
  command
      .add_option("--repeat", repeat,
                  "answer the request N times, from the prompt to the file, with the model "
                  "loaded; the report has the "
                  "time of each")
      .expect_whole(1, kMaxRepeats);
  command.add_option("--text-tokens", text_tokens, "prompt length in tokens (default: the model's, 512)")
      .expect_whole();
  command
      .add_option("--from", from, "repeat the run recorded in PICTURE.png; other options override its record")
      .expect_name();
  command.add_option("--noise-dtype", noise_dtype, "dtype in which noise is drawn: f32, bf16, f16")
      .show_default();
  command
      .add_option("--rng", rng,
                  "whose generator draws the noise: torch-cpu, torch-cuda (the card that runs), or that of "
                  "another card as "
                  "torch-cuda:MULTIPROCESSORSxTHREADS")
      .show_default();
  command.add_option("--save-latents", save_latents, "write the final latents to FILE.diftensor")
      .expect_name();
  command
      .add_option("--init-latents", init_latents,
                  "start from FILE.diftensor or FILE.safetensors::NAME, not from noise")
      .expect_name();
  command
      .add_option(
          "--emit-programs", emit_programs,
          "write the chain's programs and bundles into DIR and stop; as the frontend builds them, or with "
          "--passes as those leave them")
      .expect_name();
  command
      .add_option("--passes", passes,
                  "what the programs go through before they run: default, none, or names separated by commas "
                  "(difc passes lists them)")
      .show_default();
  command
      .add_option(
          "--decode", decode,
          "how latents become a picture: whole; slabs, some rows at a time, the same picture in less "
          "device memory, with images in host memory; auto, whole where that fits, else slabs; tiles, "
          "blended squares: another picture, in the least memory, on a CPU too")
      .show_default()
      .expect_one_of({"auto", "whole", "slabs", "tiles"});
  command.add_option("--tile-size", tile_size, "pixels of a tile's side, a multiple of 16")
      .show_default()
      .expect_whole(1, frontends::kMaxPixels);
  command
      .add_option("--tile-overlap", tile_overlap,
                  "pixels that neighbouring tiles share, a multiple of 16 and at most half a tile")
      .show_default()
      .expect_whole(0, frontends::kMaxPixels);
  command.add_option("--plan-out", plan_out, "write what the backend decided about each program into DIR")
      .expect_name();
  command.add_flag("--dry-run", dry_run, "print programs, memory, work and time, and stop: nothing runs")
      .excludes(command.option("--plan-out"));
  command.add_flag("--strict-prompt", strict_prompt,
                   "a prompt longer than --text-tokens is an error, not a warning");
  command.add_flag("--no-metadata", no_metadata, "write no text into the PNG");
  command.add_flag("--allow-nonfinite", allow_nonfinite,
                   "write the picture even when values are NaN or infinite");
  command
      .add_flag("--trace-ops", trace_ops,
                "print what each kind of operation took, with its rates, on stderr; the report has every "
                "operation. Runs them one by one: slower than without")
      .excludes(command.option("--dry-run"));
  command.add_flag("--why", why, "print backend, dtype and kernels, and why others declined, on stderr");
}

}  // namespace dif::tools
