#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "cli/command.h"
#include "cli/dtype_options.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/streaming_options.h"
#include "execution_choices.h"
#include "frontends/family.h"
#include "frontends/model.h"
#include "generation_report.h"
#include "io/atomic_file.h"
#include "io/png.h"
#include "io/safetensors.h"
#include "io/tensor_file.h"
#include "output_files.h"
#include "pipelines/chain_builder.h"
#include "pipelines/noise_source.h"
#include "pipelines/picture_size.h"
#include "pipelines/text_to_image.h"
#include "refused_options.h"
#include "tools.h"

namespace dif::tools {

namespace {

const std::vector<MissingFeature> kMissing = {
    {"choice of the attention kernel (the backend takes the fastest that serves)",
     {},
     {"--transformer-attention"}},
    {"W8A8 linears",
     {"--w8a8-convrot", "--w8a8-f32-convrot", "--w8a8-f32-signed-convrot", "--w8a8-f32-signed-convrot-4096",
      "--w8a8-signed-convrot", "--w8a8-signed-convrot-4096", "--w8a8-weight-equalization",
      "--w8a8-mse-weight-scale", "--w8a8-activation-residual2", "--w8a8-activation-residual2-single-linear1",
      "--w8a8-activation-residual2-single-linear2", "--w8a8-activation-residual2-double",
      "--w8a8-single-mlp-h256-convrot"},
     {"--w8a8-activation-clip-ratio", "--w8a8-activation-clip-single-linear1",
      "--w8a8-activation-clip-single-linear2", "--w8a8-activation-clip-double",
      "--w8a8-activation-clip-switch-step", "--w8a8-activation-clip-after-ratio",
      "--w8a8-single-linear1-blocks", "--w8a8-single-linear1-block", "--w8a8-single-mlp-blocks",
      "--w8a8-single-mlp-block", "--w8a8-single-qk-blocks", "--w8a8-single-qk-block",
      "--w8a8-single-linear2-blocks", "--w8a8-single-linear2-block", "--w8a8-double-image-mlp-block",
      "--w8a8-double-mlp-block", "--w8a8-double-image-block", "--w8a8-double-text-block",
      "--w8a8-double-block"}},
    {"FP8 linears",
     {"--fp8-row-scaled"},
     {"--fp8-single-linear1-blocks", "--fp8-single-linear1-block", "--fp8-single-mlp-blocks",
      "--fp8-single-mlp-block", "--fp8-single-linear2-blocks", "--fp8-single-linear2-block",
      "--fp8-double-image-mlp-block", "--fp8-double-image-block", "--fp8-double-text-block",
      "--fp8-double-block"}},
    {"INT8 weights",
     {"--int8-weight-only-all-linears", "--int8-weight-only-row-scaled-all-linears"},
     {"--int8-weight-only-group-size", "--int8-weight-only-exclude", "--int8-weight-only-group32"}},
};

struct Options {
  std::string model, vae, transformer, prompt, output, report;
  std::string state_output, positive, negative, initial, initial_name, rng = "torch-cpu";
  std::int64_t seed = 42, steps = 0, start_step = 0, stop_after = 0, capture_every = 0;
  std::int64_t width = 0, height = 0, text_tokens = 0;
  double guidance = 0;
  bool profile = false;
};

/// The tensor of a file: the first of `names` that it holds, else the only one that it holds.
Result<io::HostTensor> read_tensor(const std::string& path, const std::vector<std::string>& names) {
  DIF_ASSIGN(const io::SafetensorsFile file, io::open_safetensors(path));
  for (const std::string& name : names)
    if (const io::TensorRef* found = file.find(name)) return io::copy_tensor(*found);
  if (file.tensors().size() == 1) return io::copy_tensor(file.tensors().front());
  return invalid_input("{}: expected a tensor {} or a single tensor, found {} others", path,
                       fmt::join(names, " or "), file.tensors().size());
}

/// The latents of the captured steps, for --state-output.
struct Capture {
  std::vector<float> values;        ///< one capture after another
  std::vector<std::int64_t> steps;  ///< how many steps were done at each
};

class Sample {
 public:
  Sample(const cli::Command& command, const Options& options, const cli::DtypeOptions& dtypes,
         const cli::BackendOptions& backend, const cli::StreamingOptions& streaming,
         const ExecutionChoices& choices, const cli::ProgressOptions& progress)
      : command_(command),
        options_(options),
        dtypes_(dtypes),
        backend_(backend),
        streaming_(streaming),
        choices_(choices),
        progress_(progress.create()) {}

  Status run() {
    DIF_ASSIGN(model_, frontends::open_model(options_.model, {options_.transformer, options_.vae}));
    DIF_TRY(choose_settings());
    DIF_TRY(check_outputs({{"--output", options_.output},
                           {"--report", options_.report},
                           {"--state-output", options_.state_output}}));
    DIF_TRY(read_inputs());
    runtime::ContextOptions context_options;
    DIF_TRY(streaming_.apply(context_options));
    DIF_ASSIGN(auto context, backend_.create(std::move(context_options), &backend_choice_));
    backend_name_ = context->library().name();
    settings_.available_bytes = available_memory(backend_name_);
    choices_.warn_unused(backend_name_);
    streaming_.warn_unused(backend_name_);
    settings_.step_execution = [this](const ir::Program& step) {
      return choices_.options(step, backend_.cache_folder());
    };
    DIF_ASSIGN(pipeline_,
               TextToImage::create(*model_, std::move(context), settings_, observer_of(progress_)));
    DIF_ASSIGN(const Picture picture, draw());
    if (!options_.state_output.empty()) DIF_TRY(write_state(picture));
    if (cli::stop_requested())
      return fail(ErrorCode::kCancelled, "stopped before {} was written", options_.output);
    DIF_TRY(io::write_png(options_.output, picture.image));
    DIF_TRY(write_report(picture));
    if (options_.profile) cli::say(profile_text());
    return cli::print_result(options_.output + "\n");
  }

 private:
  bool given(const std::string& option) const { return command_.given(option); }

  Status choose_settings() {
    const frontends::GenerationDefaults defaults = model_->defaults();
    const auto chosen = [&](const char* option, auto value, auto standard) {
      return given(option) ? value : standard;
    };
    settings_.prompt = options_.prompt;
    settings_.steps = chosen("--steps", options_.steps, defaults.steps);
    settings_.guidance = chosen("--guidance", static_cast<float>(options_.guidance), defaults.guidance);
    settings_.text_tokens = chosen("--text-tokens", options_.text_tokens, defaults.text_tokens);
    DIF_ASSIGN(size_, fit_size(chosen("--width", options_.width, defaults.width),
                               chosen("--height", options_.height, defaults.height), model_->size_multiple(),
                               Fit::kExact));
    settings_.width = size_.drawn_width;
    settings_.height = size_.drawn_height;
    range_ = {.first = options_.start_step,
              .end = chosen("--stop-after", options_.stop_after, settings_.steps)};
    if (range_.first >= range_.end || range_.end > settings_.steps)
      return invalid_input("--start-step {} --stop-after {}: expected a part of the {} steps, at least one",
                           range_.first, range_.end, settings_.steps);
    if (range_.first > 0 && options_.initial.empty())
      return invalid_input("--start-step {}: give the latents of that moment with --initial-latent",
                           range_.first);
    return choose_numerics();
  }

  Status choose_numerics() {
    DIF_ASSIGN(const auto library, backend_.load(&backend_choice_));
    if (dtypes_.dtype == "auto") {
      DIF_ASSIGN(settings_.dtype, cli::auto_dtype(*library, backend_.device, &dtype_choice_));
    } else {
      DIF_ASSIGN(settings_.dtype, cli::parse_dtype("--dtype", dtypes_.dtype, {DType::kF32, DType::kBF16}));
    }
    DIF_ASSIGN(settings_.vae_dtype,
               cli::parse_dtype("--vae-dtype", dtypes_.vae_dtype, {DType::kF32, DType::kBF16}));
    DIF_ASSIGN(settings_.state_dtype,
               cli::parse_dtype("--state-dtype", dtypes_.state_dtype, {DType::kF32, DType::kBF16}));
    DIF_ASSIGN(const std::string probe, library->probe());
    DIF_ASSIGN(settings_.noise_source, parse_noise_source(options_.rng, probe, backend_.device));
    return ok();
  }

  Status read_inputs() {
    if (!options_.positive.empty()) {
      DIF_ASSIGN(io::HostTensor positive, read_tensor(options_.positive, {"prompt_embeds"}));
      settings_.conditioning.push_back(std::move(positive));
      if (guidance_is_active(*model_, settings_.guidance)) {
        if (options_.negative.empty())
          return invalid_input("--positive-conditioning with guidance {} needs --negative-conditioning too",
                               settings_.guidance);
        DIF_ASSIGN(io::HostTensor negative,
                   read_tensor(options_.negative, {"negative_prompt_embeds", "prompt_embeds"}));
        settings_.conditioning.push_back(std::move(negative));
      }
    }
    if (options_.initial.empty()) return ok();
    const std::vector<std::string> names = {options_.initial_name.empty() ? "initial_latents"
                                                                          : options_.initial_name};
    DIF_ASSIGN(initial_, read_tensor(options_.initial, names));
    return ok();
  }

  Result<Picture> draw() {
    if (options_.capture_every > 0) {
      range_.after_step = [this](std::int64_t step, std::span<const float> latents) {
        if ((step + 1 - range_.first) % options_.capture_every != 0) return;
        capture_.steps.push_back(step + 1);
        capture_.values.insert(capture_.values.end(), latents.begin(), latents.end());
      };
    }
    return pipeline_->draw(static_cast<std::uint64_t>(options_.seed), initial_ ? &*initial_ : nullptr,
                           range_);
  }

  /// prompt_embeds and negative_prompt_embeds as the denoiser got them, initial_latents, latents_steps,
  /// latents: the names of the fixtures.
  Status write_state(const Picture& picture) const {
    DIF_ASSIGN(const std::vector<io::HostTensor> embeds, pipeline_->prompt_embeds());
    std::vector<io::TensorToWrite> tensors;
    const auto add = [&](const char* name, const io::HostTensor& tensor) {
      tensors.push_back({.name = name, .dtype = tensor.dtype, .shape = tensor.shape, .data = tensor.bytes()});
    };
    add("prompt_embeds", embeds.front());
    if (embeds.size() > 1) add("negative_prompt_embeds", embeds.back());
    io::HostTensor initial;
    if (!initial_) {
      DIF_ASSIGN(initial, pipeline_->initial_latents(picture.seed));
    }
    add("initial_latents", initial_ ? *initial_ : initial);
    if (!capture_.steps.empty()) {
      const Shape& one = picture.latents.shape;
      tensors.push_back({.name = "latents_steps",
                         .dtype = DType::kF32,
                         .shape = {static_cast<std::int64_t>(capture_.steps.size()), one.dim(1), one.dim(2)},
                         .data = std::as_bytes(std::span(capture_.values))});
    }
    add("latents", picture.latents);
    return io::write_safetensors(options_.state_output, tensors,
                                 {{"steps_done", fmt::format("{}", range_.end)},
                                  {"steps_captured", nlohmann::json(capture_.steps).dump()}});
  }

  Status write_report(const Picture& picture) const {
    DIF_ASSIGN(const std::string digest, model_->digest());
    const GenerationFacts facts = {*model_,       settings_,       size_,        digest,
                                   backend_name_, backend_choice_, dtype_choice_};
    DIF_ASSIGN(nlohmann::ordered_json document, generation_document(facts, *pipeline_));
    document["request"]["first_step"] = range_.first;
    document["request"]["steps_done"] = range_.end;
    document["pictures"] = {{{"path", options_.output}, {"seed", picture.seed}}};
    return io::write_atomically(options_.report, generation_text(document));
  }

  std::string profile_text() const {
    std::string text;
    for (const StageTime& time : pipeline_->times())
      text += fmt::format("{:<9} {:8.3f} s\n", time.stage, time.seconds);
    return text;
  }

  const cli::Command& command_;
  const Options& options_;
  const cli::DtypeOptions& dtypes_;
  const cli::BackendOptions& backend_;
  const cli::StreamingOptions& streaming_;
  const ExecutionChoices& choices_;
  cli::Progress progress_;
  GenerationSettings settings_;
  PictureSize size_;
  StepRange range_;
  Capture capture_;
  std::unique_ptr<frontends::Model> model_;
  std::unique_ptr<TextToImage> pipeline_;
  std::optional<io::HostTensor> initial_;
  std::string backend_choice_, backend_name_, dtype_choice_ = "chosen";
};

int run(int argc, char** argv) {
  cli::Command command("difflux2sample",
                       "Draw a picture with FLUX.2 [klein] from explicit files, and look into the run.");
  Options o;
  command.add_option("--model-dir", o.model, "model directory in the diffusers layout").required();
  command
      .add_option("--vae-checkpoint", o.vae,
                  "the autoencoder's .safetensors, in diffusers' or the creator's layout")
      .required();
  command.add_option("--prompt", o.prompt, "what the picture shows").required();
  command.add_option("--output", o.output, "PNG to write").required().expect_name();
  command.add_option("--report", o.report, "JSON document about the run to write").required().expect_name();
  command.add_option("--transformer-checkpoint", o.transformer,
                     "the transformer's .safetensors instead of the directory's");
  command
      .add_option("--state-output", o.state_output,
                  "write what went in and the latents (safetensors: prompt_embeds, initial_latents, "
                  "latents_steps, latents)")
      .expect_name();
  const cli::Option positive =
      command.add_option("--positive-conditioning", o.positive,
                         "take prompt_embeds from this .safetensors instead of encoding the prompt");
  command.add_option("--negative-conditioning", o.negative, "and negative_prompt_embeds from this one")
      .needs(positive);
  const cli::Option initial = command.add_option("--initial-latent", o.initial,
                                                 "start from a tensor of this .safetensors, not from noise");
  command
      .add_option("--initial-latent-tensor", o.initial_name,
                  "which one (default: initial_latents, or the only one)")
      .needs(initial);
  command.add_option("--seed", o.seed, "of the noise").show_default().expect_whole(0, UINT32_MAX);
  command
      .add_option(
          "--rng", o.rng,
          "whose generator draws the noise: torch-cpu, torch-cuda, torch-cuda:MULTIPROCESSORSxTHREADS")
      .show_default();
  command.add_option("--steps", o.steps, "of the schedule (default: the model's)")
      .expect_whole(1, frontends::kMaxSteps);
  command
      .add_option("--start-step", o.start_step, "steps of the schedule that --initial-latent has behind it")
      .expect_whole(0, frontends::kMaxSteps);
  command
      .add_option("--stop-after", o.stop_after, "decode after this step of the schedule (default: the last)")
      .expect_whole(1, frontends::kMaxSteps);
  command
      .add_option("--capture-every", o.capture_every,
                  "keep the latents after every N steps for --state-output")
      .expect_whole(1, frontends::kMaxSteps);
  command.add_option("--width", o.width, "pixels (default: the model's)").expect_whole();
  command.add_option("--height", o.height, "pixels (default: the model's)").expect_whole();
  command.add_option("--text-tokens", o.text_tokens, "prompt length in tokens (default: the model's, 512)")
      .expect_whole();
  command.add_option("--guidance", o.guidance, "guidance scale (default: the model's)")
      .expect_number(0, frontends::kMaxGuidance);
  command.add_flag("--profile-pipeline", o.profile, "print the time of each stage on stderr");
  const cli::DtypeOptions dtypes(command);
  const cli::BackendOptions backend(command);
  const cli::StreamingOptions streaming(command);
  const ExecutionChoices choices(command, {.tune = "--tune-linear-operation",
                                           .warmups = "--linear-tuning-warmups",
                                           .iterations = "--linear-tuning-iterations",
                                           .sessions = "--linear-tuning-sessions"});
  const cli::ProgressOptions progress(command);
  const RefusedOptions refused(command, kMissing);
  command.add_examples(
      "  difflux2sample --model-dir FLUX.2-klein --vae-checkpoint ae.safetensors --prompt \"a red apple\" "
      "--output "
      "apple.png --report apple.json\n"
      "  difflux2sample --model-dir m --vae-checkpoint m/vae/diffusion_pytorch_model.safetensors --prompt x "
      "--output x.png --report x.json --steps 4 --capture-every 1 --state-output x.safetensors\n");
  return cli::run_tool(command, argc, argv, [&]() -> Status {
    DIF_TRY(refused.check());
    return Sample(command, o, dtypes, backend, streaming, choices, progress).run();
  });
}

}  // namespace

const cli::Tool k_difflux2sample = {"difflux2sample", "Pictures",
                                    "draw with FLUX.2 from explicit files and record the run", run};

}  // namespace dif::tools
