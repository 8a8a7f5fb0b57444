#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "cli/bundled.h"
#include "cli/dtype_options.h"
#include "cli/interrupt.h"
#include "cli/kernel_summary.h"
#include "cli/options.h"
#include "cli/streaming_options.h"
#include "cli/telemetry.h"
#include "frontends/family.h"
#include "frontends/model.h"
#include "generation_report.h"
#include "io/cache_store.h"
#include "io/json.h"
#include "io/png.h"
#include "io/printable.h"
#include "io/tensor_file.h"
#include "opt/pipeline.h"
#include "output_files.h"
#include "pipelines/chain_builder.h"
#include "pipelines/decode_choice.h"
#include "pipelines/dry_run.h"
#include "pipelines/generation_record.h"
#include "pipelines/model_digest.h"
#include "pipelines/noise_source.h"
#include "pipelines/optimize_chain.h"
#include "pipelines/picture_size.h"
#include "pipelines/plan_export.h"
#include "pipelines/program_export.h"
#include "pipelines/text_to_image.h"
#include "tools.h"

namespace dif::tools {

namespace {

constexpr std::uint64_t kDefaultSeed = 42;
constexpr std::int64_t kMaxBatch = 10000;
constexpr std::int64_t kMaxRepeats = 10000;
constexpr std::string_view kComputesNothing = "null";  ///< a backend whose times mean nothing

/// What the user said; an absent option falls back to --from's record, then to the model's defaults.
struct Options {
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

Result<std::uint64_t> parse_seed(const std::string& text) {
  if (text == "-1") {
    std::random_device random;
    return random() & 0x7fffffffU;
  }
  std::uint64_t seed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
  if (error != std::errc() || end != text.data() + text.size())
    return invalid_input("--seed {}: expected a whole number from 0 to 2^64-1, or -1 to draw one",
                         io::printable(text, 40));
  if (seed > UINT32_MAX)
    cli::print_warning(
        fmt::format("seed {}: only its low 32 bits count, as in PyTorch ({})", seed, seed & UINT32_MAX));
  return seed;
}

/// Width and height.
Result<std::pair<std::int64_t, std::int64_t>> parse_size(const std::string& text) {
  const char* const end = text.data() + text.size();
  std::int64_t width = 0, height = 0;
  const auto first = std::from_chars(text.data(), end, width);
  if (first.ec == std::errc() && first.ptr != end && *first.ptr == 'x') {
    const auto second = std::from_chars(first.ptr + 1, end, height);
    if (second.ec == std::errc() && second.ptr == end) return std::pair(width, height);
  }
  return invalid_input("--size {}: expected WIDTHxHEIGHT in pixels, such as 128x128",
                       io::printable(text, 40));
}

/// out.png -> out-3.png when there are several pictures.
std::string picture_path(const std::string& output, std::int64_t index, std::int64_t count) {
  if (count == 1) return output;
  const std::filesystem::path path = output;
  return (path.parent_path() / fmt::format("{}-{}{}", path.stem().string(), index, path.extension().string()))
      .string();
}

class Generate {
 public:
  Generate(const CLI::App& app, const Options& options, const cli::DtypeOptions& dtypes,
           const cli::BackendOptions& backend, const cli::StreamingOptions& streaming,
           const cli::ReportOptions& report, const cli::ProgressOptions& progress)
      : app_(app),
        options_(options),
        dtypes_(dtypes),
        backend_(backend),
        streaming_(streaming),
        report_(report),
        cache_(backend.cache_folder(), cli::print_warning),
        progress_(progress.create()) {}

  Status run() {
    DIF_ASSIGN(const std::string folder, model_folder());
    DIF_ASSIGN(model_, frontends::open_model(folder));
    const double opened_seconds = seconds_since(start_);
    DIF_TRY(choose_settings());
    if (!options_.emit_programs.empty()) return emit_programs();
    if (options_.dry_run) return dry_run();
    DIF_TRY(check_outputs(outputs()));
    DIF_TRY(read_init_latents());
    const auto context_start = std::chrono::steady_clock::now();
    DIF_ASSIGN(auto context, create_context());
    first_stages_ = {{{"stage", "open"}, {"seconds", opened_seconds}},
                     {{"stage", "context"}, {"seconds", seconds_since(context_start)}}};
    backend_name_ = context->library().name();
    settings_.available_bytes = available_memory(backend_name_);
    settings_.record_plans = !options_.plan_out.empty();
    // Under a cap encoder and denoiser take turns with all of it, unless the encoder can be streamed.
    const bool capped = streaming_.is_capped() || backend_.memory_cap_mib != 0;
    settings_.keep_encoder = options_.repeat > 0 && (!capped || backend_name_ == "cuda");
    settings_.stream_encoder = settings_.keep_encoder && capped;
    DIF_ASSIGN(pipeline_,
               TextToImage::create(*model_, std::move(context), settings_, observer_of(progress_)));
    if (options_.why) cli::say(why_text());
    if (settings_.record_plans) DIF_TRY(write_plans());
    if (!options_.no_metadata || report_.wanted()) {
      DIF_ASSIGN(model_digest_, model_digest(*model_, cache_));
    }
    if (options_.repeat == 0) {
      DIF_TRY(draw_batch());
      if (backend_name_ != kComputesNothing)
        note_speeds(cache_, speed_conditions(backend_name_), settings_, *pipeline_, options_.batch);
    }
    for (std::int64_t i = 0; i < options_.repeat; ++i) DIF_TRY(answer_request());
    if (options_.trace_ops) cli::say(trace_text());
    return report_.wanted() ? write_report() : ok();
  }

 private:
  bool given(const std::string& option) const { return app_.count(option) != 0; }

  Result<std::string> model_folder() const {
    if (!options_.model.empty()) return options_.model;
    DIF_ASSIGN(const std::filesystem::path bundled, cli::bundled_model());
    return bundled.string();
  }

  Status choose_settings() {
    const frontends::GenerationDefaults defaults = model_->defaults();
    std::pair size = {defaults.width, defaults.height};
    fit_ = *fit_from_name(options_.fit);
    settings_ = {.steps = defaults.steps, .guidance = defaults.guidance, .text_tokens = defaults.text_tokens};
    seed_ = kDefaultSeed;
    if (!options_.from.empty()) DIF_TRY(take_from_picture(size));
    if (given("prompt")) settings_.prompt = options_.prompt;
    if (!given("prompt") && options_.from.empty())
      return invalid_input("a prompt is needed: dif generate \"a red apple\" -o apple.png");
    if (given("--negative-prompt")) settings_.negative_prompt = options_.negative_prompt;
    if (given("--steps")) settings_.steps = options_.steps;
    if (given("--guidance")) settings_.guidance = static_cast<float>(options_.guidance);
    if (given("--text-tokens")) settings_.text_tokens = options_.text_tokens;
    if (given("--size")) {
      DIF_ASSIGN(size, parse_size(options_.size));
    }
    DIF_TRY(choose_size(size));
    if (given("--seed")) {
      DIF_ASSIGN(seed_, parse_seed(options_.seed));
      if (options_.seed == "-1") cli::say(fmt::format("seed {}\n", seed_));
    }
    DIF_TRY(choose_dtypes());
    DIF_TRY(choose_noise());
    if (given("--passes")) passes_text_ = options_.passes;
    DIF_ASSIGN(opt::Pipeline passes, opt::parse_pipeline(passes_text_));
    if (passes_text_ != "default") settings_.passes = std::move(passes);
    DIF_TRY(choose_decode());
    settings_.allow_nonfinite = options_.allow_nonfinite;
    settings_.strict_prompt = options_.strict_prompt;
    if (given("--guidance") && !model_->supports_guidance() && settings_.guidance != 1.0f)
      cli::print_warning("this model is distilled: guidance has no effect");
    if (given("--guidance") && model_->supports_guidance() &&
        !guidance_is_active(*model_, settings_.guidance))
      cli::print_warning(
          fmt::format("guidance {}: one evaluation a step, without the negative prompt", settings_.guidance));
    return ok();
  }

  /// The option, or what a picture's record said.
  Status choose_noise() {
    const std::string text = given("--rng") || options_.from.empty() ? options_.rng : recorded_rng_;
    if (text != "torch-cuda") {  // only that one is the card's business
      DIF_ASSIGN(settings_.noise_source, parse_noise_source(text, "", 0));
      return ok();
    }
    DIF_ASSIGN(const auto library, backend_.load(&backend_choice_));
    DIF_ASSIGN(const std::string probe, library->probe());
    DIF_ASSIGN(settings_.noise_source, parse_noise_source(text, probe, backend_.device));
    return ok();
  }

  Status choose_decode() {
    const bool tiles = given("--tile-size") || given("--tile-overlap");
    if (given("--decode")) settings_.decode.way = *decode_way_from_name(options_.decode);
    if (given("--tile-size")) settings_.decode.tile_size = options_.tile_size;
    if (given("--tile-overlap")) settings_.decode.tile_overlap = options_.tile_overlap;
    if (tiles && settings_.decode.way != DecodeWay::kTiles)
      return invalid_input(
          "--tile-size and --tile-overlap say how --decode tiles works, which is not asked for");
    return ok();
  }

  /// Options that were not given keep what a picture's record said.
  Status choose_dtypes() {
    if (given("--dtype") && dtypes_.dtype == "auto") {
      DIF_ASSIGN(const auto library, backend_.load(&backend_choice_));
      DIF_ASSIGN(settings_.dtype, cli::auto_dtype(*library, backend_.device, &dtype_choice_));
    } else if (given("--dtype")) {
      dtype_choice_ = "chosen";
    }
    for (const auto& [option, name, dtype] :
         {std::tuple("--dtype", &dtypes_.dtype, &settings_.dtype),
          std::tuple("--vae-dtype", &dtypes_.vae_dtype, &settings_.vae_dtype),
          std::tuple("--state-dtype", &dtypes_.state_dtype, &settings_.state_dtype)}) {
      if (!given(option) || (dtype == &settings_.dtype && *name == "auto")) continue;
      DIF_ASSIGN(*dtype, cli::parse_dtype(option, *name, {DType::kF32, DType::kBF16},
                                          dtype == &settings_.dtype ? "auto" : ""));
    }
    if (given("--noise-dtype") || options_.from.empty()) {
      DIF_ASSIGN(settings_.noise_dtype, cli::parse_dtype("--noise-dtype", options_.noise_dtype,
                                                         {DType::kF32, DType::kBF16, DType::kF16}));
    }
    return ok();
  }

  Status choose_size(std::pair<std::int64_t, std::int64_t> asked) {
    DIF_ASSIGN(size_, fit_size(asked.first, asked.second, model_->size_multiple(), fit_));
    settings_.width = size_.drawn_width;
    settings_.height = size_.drawn_height;
    if (std::pair(size_.width, size_.height) != asked)
      cli::print_warning(fmt::format("{}x{} is drawn as {}x{}, the nearest size of this model", asked.first,
                                     asked.second, size_.width, size_.height));
    return ok();
  }

  Status take_from_picture(std::pair<std::int64_t, std::int64_t>& size) {
    DIF_ASSIGN(const auto texts, io::read_png_text(options_.from));
    DIF_ASSIGN(const GenerationRecord record, find_generation_record(texts, options_.from));
    settings_.prompt = record.prompt;
    settings_.negative_prompt = record.negative_prompt;
    size = {record.width, record.height};
    if (record.padded && !given("--fit")) fit_ = Fit::kPad;
    settings_.steps = record.steps;
    settings_.guidance = static_cast<float>(record.guidance);
    settings_.text_tokens = record.text_tokens;
    settings_.dtype = dtype_from_name(record.dtype).value_or(DType::kF32);
    settings_.vae_dtype = dtype_from_name(record.vae_dtype).value_or(DType::kF32);
    settings_.state_dtype = dtype_from_name(record.state_dtype).value_or(DType::kF32);
    settings_.noise_dtype = dtype_from_name(record.noise_dtype).value_or(DType::kF32);
    recorded_rng_ = record.rng;
    dtype_choice_ = "as recorded";
    passes_text_ = record.passes;
    settings_.decode = {*decode_way_from_name(record.decode), record.tile_size, record.tile_overlap,
                        static_cast<std::uint64_t>(record.slab_bytes)};
    seed_ = record.seed;
    DIF_ASSIGN(const std::string digest, model_digest(*model_, cache_));
    if (!record.model_digest.empty() && !digest.starts_with(record.model_digest))
      cli::print_warning(fmt::format("{} was made with another model ({}), this one is {}", options_.from,
                                     record.model_name, model_->name()));
    return ok();
  }

  /// Everything that is written. The first of a batch stands for all of it where a file is tried.
  std::vector<OutputFile> outputs() const {
    std::vector<OutputFile> files = {{"--report", report_.report}, {"--plan-out", options_.plan_out, false}};
    for (std::int64_t i = 0; i < options_.batch; ++i) {
      files.push_back({"--output", picture_path(options_.output, i, options_.batch), i == 0});
      if (!options_.save_latents.empty())
        files.push_back({"--save-latents", picture_path(options_.save_latents, i, options_.batch), i == 0});
    }
    return files;
  }

  Status read_init_latents() {
    if (options_.init_latents.empty()) return ok();
    DIF_ASSIGN(io::HostTensor latents, io::read_tensor_operand(options_.init_latents));
    init_latents_ = std::move(latents);
    return ok();
  }

  Status emit_programs() {
    for (const char* option : {"--dry-run", "--json", "--report", "--plan-out", "--output", "--save-latents",
                               "--init-latents", "--repeat", "--why", "--trace-ops"})
      if (given(option))
        return invalid_input("--emit-programs writes programs and stops: leave {} out", option);
    if (const DecodeWay way = settings_.decode.way; way == DecodeWay::kSlabs || way == DecodeWay::kTiles)
      return invalid_input(
          "--emit-programs writes the decoder of the whole picture, not of {}: --decode whole asks for that",
          decode_way_name(way));
    DIF_ASSIGN(frontends::Chain chain, build_chain(*model_, settings_));
    if (given("--passes")) {
      DIF_TRY(optimize_chain(chain, settings_.passes.value_or(opt::default_pipeline())));
    }
    return export_chain(chain, options_.emit_programs);
  }

  SpeedConditions speed_conditions(const std::string& backend) const {
    return {backend, backend_.device, static_cast<unsigned>(backend_.threads), "", ""};
  }

  Result<std::shared_ptr<runtime::Context>> create_context() {
    runtime::ContextOptions options;
    DIF_TRY(streaming_.apply(options));
    if (options_.trace_ops) {
      settings_.traces = std::make_shared<ProgramTraces>();
      options.trace = [traces = settings_.traces](const dif_trace_event& event) { traces->record(event); };
    }
    DIF_ASSIGN(auto context, backend_.create(std::move(options), &backend_choice_));
    streaming_.warn_unused(context->library().name());
    return context;
  }

  Status dry_run() {
    DIF_ASSIGN(const auto context, create_context());
    settings_.available_bytes = available_memory(context->library().name());
    DIF_ASSIGN(const DryRun found, dif::dry_run(*model_, context, settings_, options_.batch, cache_,
                                                speed_conditions(context->library().name())));
    if (report_.wanted()) {
      nlohmann::ordered_json document = cli::telemetry_document("plan-report");
      document["model"] = {{"name", model_->name()}, {"family", model_->family()}};
      document["backend"] = {{"name", context->library().name()}, {"choice", backend_choice_}};
      document["dry_run"] = dry_run_json(found);
      DIF_TRY(report_.write(io::json_text(document)));
    }
    return report_.json ? ok() : cli::print_result(dry_run_text(found));
  }

  Status write_plans() {
    std::vector<plan::PlanRecord> plans;
    for (const ProgramReport& program : pipeline_->programs()) {
      plans.push_back(*program.plan);
      plans.back().decisions.push_back({plan::DecisionKind::kPrecision, plan::SubjectKind::kPlan, 0,
                                        std::string(dtype_name(settings_.dtype)), dtype_choice_});
      plans.insert(plans.end(), program.part_plans.begin(), program.part_plans.end());
    }
    return export_plans(plans, options_.plan_out);
  }

  Status draw_batch() {
    for (std::int64_t i = 0; i < options_.batch; ++i) DIF_TRY(draw(i));
    return ok();
  }

  /// A whole request from the prompt to the file, everything loaded: what --repeat measures.
  Status answer_request() {
    const auto start = std::chrono::steady_clock::now();
    const std::size_t first_stage = pipeline_->times().size();
    pictures_.clear();
    written_seconds_ = 0;
    DIF_TRY(pipeline_->encode_prompts());
    DIF_TRY(draw_batch());
    nlohmann::ordered_json stages = nlohmann::ordered_json::array();
    for (std::size_t i = first_stage; i < pipeline_->times().size(); ++i)
      stages.push_back({{"stage", pipeline_->times()[i].stage}, {"seconds", pipeline_->times()[i].seconds}});
    stages.push_back({{"stage", "write"}, {"seconds", written_seconds_}});
    written_before_seconds_ += written_seconds_;
    requests_.push_back({{"seconds", seconds_since(start)}, {"stages", std::move(stages)}});
    return ok();
  }

  Status draw(std::int64_t index) {
    DIF_ASSIGN(const Picture picture, pipeline_->draw(seed_ + static_cast<std::uint64_t>(index),
                                                      init_latents_ ? &*init_latents_ : nullptr));
    if (!options_.save_latents.empty())
      DIF_TRY(
          io::write_tensor_file(picture_path(options_.save_latents, index, options_.batch), picture.latents));
    const auto start = std::chrono::steady_clock::now();
    std::vector<io::PngText> texts;
    if (!options_.no_metadata) {
      DIF_ASSIGN(texts, png_texts(record_of(picture, index)));
    }
    const std::string path = picture_path(options_.output, index, options_.batch);
    if (cli::stop_requested()) return fail(ErrorCode::kCancelled, "stopped before {} was written", path);
    DIF_TRY(io::write_png(path,
                          crop_to_middle(picture.image, static_cast<std::uint32_t>(size_.width),
                                         static_cast<std::uint32_t>(size_.height)),
                          texts));
    written_seconds_ += seconds_since(start);
    pictures_.push_back({{"path", path}, {"seed", picture.seed}});
    if (!report_.json) return cli::print_result(path + "\n");
    return ok();
  }

  GenerationRecord record_of(const Picture& picture, std::int64_t index) const {
    GenerationRecord record;
    record.prompt = settings_.prompt;
    record.negative_prompt = settings_.negative_prompt;
    record.seed = picture.seed;
    record.steps = settings_.steps;
    record.guidance = settings_.guidance;
    record.width = size_.width;
    record.height = size_.height;
    record.padded = size_.width != size_.drawn_width || size_.height != size_.drawn_height;
    record.batch_index = index;
    record.batch_count = options_.batch;
    record.text_tokens = settings_.text_tokens;
    record.dtype = dtype_name(settings_.dtype);
    record.vae_dtype = dtype_name(settings_.vae_dtype);
    record.state_dtype = dtype_name(settings_.state_dtype);
    record.noise_dtype = dtype_name(settings_.noise_dtype);
    record.rng = settings_.noise_source.text();
    record.passes = passes_text_;
    const Decoder& decoder = pipeline_->decoder();
    const bool in_slabs = decoder.way() == DecodeWay::kSlabs;  // asked for, or what fitted
    record.decode = decode_way_name(in_slabs ? DecodeWay::kSlabs : settings_.decode.way);
    record.tile_size = settings_.decode.tile_size;
    record.tile_overlap = settings_.decode.tile_overlap;
    record.slab_bytes = static_cast<std::int64_t>(std::min<std::uint64_t>(decoder.slab_bytes(), INT64_MAX));
    record.backend = backend_name_;
    record.model_name = model_->name();
    record.model_digest = model_digest_;
    for (const ProgramReport& program : pipeline_->programs())
      record.programs.push_back({program.name, program.fingerprint});
    record.version = DIF_VERSION;
    return record;
  }

  std::string why_text() const {
    std::string text = fmt::format("backend {}\ndtype {} ({}), VAE {}, state {}\n", backend_choice_,
                                   dtype_name(settings_.dtype), dtype_choice_,
                                   dtype_name(settings_.vae_dtype), dtype_name(settings_.state_dtype));
    for (const ProgramReport& program : pipeline_->programs())
      text += cli::kernel_summary(program.name, program.memory.details);
    const Decoder& decoder = pipeline_->decoder();
    for (std::size_t i = 1; i < decoder.parts().size(); ++i)
      text += cli::kernel_summary(decoder.parts()[i].program.name, decoder.parts()[i].memory.details);
    text += decode_text(decoder) + "\n";
    return text;
  }

  std::string trace_text() const {
    std::string text;
    const auto add = [&](const std::string& name, const std::vector<OperationTime>& times) {
      text += fmt::format("program {}\n{}\n", name, operation_kinds_text(times));
    };
    for (const ProgramReport& program : pipeline_->programs())
      add(program.name, pipeline_->operation_times(program));
    const std::vector<DecodePart>& parts = pipeline_->decoder().parts();
    for (std::size_t i = 1; i < parts.size(); ++i)
      add(parts[i].program.name, pipeline_->operation_times(parts[i]));
    return text;
  }

  Status write_report() const {
    const GenerationFacts facts = {*model_,       settings_,       size_,        model_digest_,
                                   backend_name_, backend_choice_, dtype_choice_};
    DIF_ASSIGN(nlohmann::ordered_json document, generation_document(facts, *pipeline_));
    nlohmann::ordered_json& stages = document["stages"];
    stages.insert(stages.begin(), first_stages_.begin(), first_stages_.end());
    const double written = requests_.empty() ? written_seconds_ : written_before_seconds_;
    stages.push_back({{"stage", "write"}, {"seconds", written}});
    document["seconds"] = seconds_since(start_);
    if (!requests_.empty()) document["requests"] = requests_;
    document["pictures"] = pictures_;
    return report_.write(generation_text(document));
  }

  const CLI::App& app_;
  const Options& options_;
  const cli::DtypeOptions& dtypes_;
  const cli::BackendOptions& backend_;
  const cli::StreamingOptions& streaming_;
  const cli::ReportOptions& report_;
  io::CacheStore cache_;
  cli::Progress progress_;
  GenerationSettings settings_;
  PictureSize size_;
  Fit fit_ = Fit::kExact;
  std::uint64_t seed_ = kDefaultSeed;
  std::string passes_text_ = "default";
  std::unique_ptr<frontends::Model> model_;
  std::unique_ptr<TextToImage> pipeline_;
  std::optional<io::HostTensor> init_latents_;
  std::string backend_choice_, backend_name_, dtype_choice_ = "default", model_digest_, recorded_rng_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  nlohmann::ordered_json first_stages_;  ///< before there is a pipeline
  double written_seconds_ = 0;           ///< of the pictures so far of this request
  double written_before_seconds_ = 0;    ///< of the requests that were answered
  nlohmann::ordered_json requests_ = nlohmann::ordered_json::array();
  nlohmann::ordered_json pictures_ = nlohmann::ordered_json::array();
};

int run(int argc, char** argv) {
  CLI::App app{"Draw a picture from a prompt.", "dif generate"};
  Options o;
  app.add_option("prompt", o.prompt, "what the picture shows");
  cli::expect_name(app.add_option(
      "-m,--model", o.model, "model directory in the diffusers layout (default: the bundled emoji-klein)"));
  cli::expect_name(
      app.add_option("-o,--output", o.output, "PNG to write; a batch writes NAME-0.png, NAME-1.png, ...")
          ->capture_default_str());
  app.add_option("--negative-prompt", o.negative_prompt, "what guidance steers away from");
  app.add_option("--seed", o.seed,
                 "0 to 2^64-1, -1 draws one (default 42); picture i of a batch uses seed + i");
  cli::expect_whole(app.add_option("--steps", o.steps, "denoising steps (default: the model's)"), 1,
                    frontends::kMaxSteps);
  cli::expect_number(
      app.add_option("--guidance", o.guidance,
                     "guidance scale; up to 1 means one evaluation a step (default: the model's)"),
      0, frontends::kMaxGuidance);
  app.add_option("--size", o.size, "WIDTHxHEIGHT in pixels (default: the model's)");
  app.add_option(
         "--fit", o.fit,
         "a size that the model cannot draw: exact refuses it, round takes the nearest, pad draws the next "
         "larger and keeps its middle")
      ->capture_default_str()
      ->check(CLI::IsMember({"exact", "round", "pad"}));
  cli::expect_whole(app.add_option("--batch", o.batch, "number of pictures")->capture_default_str(), 1,
                    kMaxBatch);
  cli::expect_whole(app.add_option("--repeat", o.repeat,
                                   "answer the request N times, from the prompt to the file, with the model "
                                   "loaded; the report has the "
                                   "time of each"),
                    1, kMaxRepeats);
  cli::expect_whole(
      app.add_option("--text-tokens", o.text_tokens, "prompt length in tokens (default: the model's, 512)"));
  cli::expect_name(app.add_option(
      "--from", o.from, "repeat the run recorded in PICTURE.png; other options override its record"));
  const cli::DtypeOptions dtypes(app);
  app.add_option("--noise-dtype", o.noise_dtype, "dtype in which noise is drawn: f32, bf16, f16")
      ->capture_default_str();
  app.add_option("--rng", o.rng,
                 "whose generator draws the noise: torch-cpu, torch-cuda (the card that runs), or that of "
                 "another card as "
                 "torch-cuda:MULTIPROCESSORSxTHREADS")
      ->capture_default_str();
  cli::expect_name(
      app.add_option("--save-latents", o.save_latents, "write the final latents to FILE.diftensor"));
  cli::expect_name(app.add_option("--init-latents", o.init_latents,
                                  "start from FILE.diftensor or FILE.safetensors::NAME, not from noise"));
  cli::expect_name(app.add_option(
      "--emit-programs", o.emit_programs,
      "write the chain's programs and bundles into DIR and stop; as the frontend builds them, or with "
      "--passes as those leave them"));
  app.add_option("--passes", o.passes,
                 "what the programs go through before they run: default, none, or names separated by commas "
                 "(difc passes lists them)")
      ->capture_default_str();
  app.add_option("--decode", o.decode,
                 "how latents become a picture: whole; slabs, some rows at a time, the same picture in less "
                 "device memory, with images in host memory; auto, whole where that fits, else slabs; tiles, "
                 "blended squares: another picture, in the least memory, on a CPU too")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "whole", "slabs", "tiles"}));
  cli::expect_whole(app.add_option("--tile-size", o.tile_size, "pixels of a tile's side, a multiple of 16")
                        ->capture_default_str(),
                    1, frontends::kMaxPixels);
  cli::expect_whole(
      app.add_option("--tile-overlap", o.tile_overlap,
                     "pixels that neighbouring tiles share, a multiple of 16 and at most half a tile")
          ->capture_default_str(),
      0, frontends::kMaxPixels);
  cli::expect_name(
      app.add_option("--plan-out", o.plan_out, "write what the backend decided about each program into DIR"));
  app.add_flag("--dry-run", o.dry_run, "print programs, memory, work and time, and stop: nothing runs")
      ->excludes("--plan-out");
  app.add_flag("--strict-prompt", o.strict_prompt,
               "a prompt longer than --text-tokens is an error, not a warning");
  app.add_flag("--no-metadata", o.no_metadata, "write no text into the PNG");
  app.add_flag("--allow-nonfinite", o.allow_nonfinite,
               "write the picture even when values are NaN or infinite");
  app.add_flag("--trace-ops", o.trace_ops,
               "print what each kind of operation took, with its rates, on stderr; the report has every "
               "operation. Runs them one by one: slower than without")
      ->excludes("--dry-run");
  app.add_flag("--why", o.why, "print backend, dtype and kernels, and why others declined, on stderr");
  const cli::BackendOptions backend(app);
  const cli::StreamingOptions streaming(app);
  const cli::ReportOptions report(app);
  const cli::ProgressOptions progress(app);
  cli::examples(
      app,
      "  dif generate \"a red apple\" -o apple.png\n"
      "  dif generate \"rocket on a pink background\" --seed 7 --steps 30 --guidance 2 -o rocket.png\n"
      "  dif generate --model ./FLUX.2-klein-4B \"a lighthouse at dusk\" --size 1024x1024 -o lighthouse.png\n"
      "  dif generate --from apple.png -o again.png\n"
      "  dif generate \"a red apple\" --passes none -o unoptimised.png\n");
  return cli::run_app(app, argc, argv,
                      [&] { return Generate(app, o, dtypes, backend, streaming, report, progress).run(); });
}

}  // namespace

const cli::Tool k_generate = {"generate", "Pictures", "draw a picture from a prompt", run};

}  // namespace dif::tools
