#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "cli/bundled.h"
#include "cli/command.h"
#include "cli/dtype_options.h"
#include "cli/interrupt.h"
#include "cli/kernel_summary.h"
#include "cli/options.h"
#include "cli/streaming_options.h"
#include "cli/telemetry.h"
#include "frontends/model.h"
#include "generate_options.h"
#include "generation_report.h"
#include "generation_request.h"
#include "io/cache_store.h"
#include "io/json.h"
#include "io/png.h"
#include "io/tensor_file.h"
#include "opt/pipeline.h"
#include "output_files.h"
#include "pipelines/chain_builder.h"
#include "pipelines/decode_choice.h"
#include "pipelines/dry_run.h"
#include "pipelines/generation_record.h"
#include "pipelines/model_digest.h"
#include "pipelines/optimize_chain.h"
#include "pipelines/picture_size.h"
#include "pipelines/plan_export.h"
#include "pipelines/program_export.h"
#include "pipelines/text_to_image.h"
#include "tools.h"

namespace dif::tools {

namespace {

constexpr std::string_view kComputesNothing = "null";  ///< a backend whose times mean nothing

/// out.png -> out-3.png when there are several pictures.
std::string picture_path(const std::string& output, std::int64_t index, std::int64_t count) {
  if (count == 1) return output;
  const std::filesystem::path path = output;
  return (path.parent_path() / fmt::format("{}-{}{}", path.stem().string(), index, path.extension().string()))
      .string();
}

class Generate {
 public:
  Generate(const cli::Command& command, const GenerateOptions& options, const cli::DtypeOptions& dtypes,
           const cli::BackendOptions& backend, const cli::StreamingOptions& streaming,
           const cli::ReportOptions& report, const cli::ProgressOptions& progress)
      : options_(options),
        backend_(backend),
        streaming_(streaming),
        report_(report),
        cache_(backend.cache_folder(), cli::print_warning),
        request_(command, options, dtypes, backend, cache_),
        progress_(progress.create()) {}

  Status run() {
    DIF_ASSIGN(const std::string folder, model_folder());
    DIF_ASSIGN(model_, frontends::open_model(folder));
    const double opened_seconds = seconds_since(start_);
    DIF_TRY(request_.read(*model_));
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
    model_digest_ = request_.model_digest;
    if (model_digest_.empty() && (!options_.no_metadata || report_.wanted()))
      digest_.emplace(*model_, cache_);
    DIF_ASSIGN(pipeline_,
               TextToImage::create(*model_, std::move(context), settings_, observer_of(progress_)));
    if (options_.why) cli::say(why_text());
    if (settings_.record_plans) DIF_TRY(write_plans());
    if (options_.repeat == 0) {
      DIF_TRY(draw_batch());
      if (backend_name_ != kComputesNothing)
        note_speeds(cache_, speed_conditions(backend_name_), settings_, *pipeline_, options_.batch);
    }
    if (options_.repeat != 0) DIF_TRY(take_digest());
    for (std::int64_t i = 0; i < options_.repeat; ++i) DIF_TRY(answer_request());
    if (options_.trace_ops) cli::say(trace_text());
    return report_.wanted() ? write_report() : ok();
  }

 private:
  Result<std::string> model_folder() const {
    if (!options_.model.empty()) return options_.model;
    DIF_ASSIGN(const std::filesystem::path bundled, cli::bundled_model());
    return bundled.string();
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
      if (request_.given(option))
        return invalid_input("--emit-programs writes programs and stops: leave {} out", option);
    if (const DecodeWay way = settings_.decode.way; way == DecodeWay::kSlabs || way == DecodeWay::kTiles)
      return invalid_input(
          "--emit-programs writes the decoder of the whole picture, not of {}: --decode whole asks for that",
          decode_way_name(way));
    DIF_ASSIGN(frontends::Chain chain, build_chain(*model_, settings_));
    if (request_.given("--passes")) {
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
    DIF_ASSIGN(auto context, backend_.create(std::move(options), &request_.backend_choice));
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
      document["backend"] = {{"name", context->library().name()}, {"choice", request_.backend_choice}};
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
                                        std::string(dtype_name(settings_.dtype)), request_.dtype_choice});
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

  Status take_digest() {
    if (!digest_) return ok();
    DIF_ASSIGN(model_digest_, digest_->get(cli::stop_requested));
    digest_.reset();
    return ok();
  }

  Status draw(std::int64_t index) {
    DIF_ASSIGN(const Picture picture, pipeline_->draw(request_.seed + static_cast<std::uint64_t>(index),
                                                      init_latents_ ? &*init_latents_ : nullptr));
    if (!options_.save_latents.empty())
      DIF_TRY(
          io::write_tensor_file(picture_path(options_.save_latents, index, options_.batch), picture.latents));
    DIF_TRY(take_digest());
    const auto start = std::chrono::steady_clock::now();
    std::vector<io::PngText> texts;
    if (!options_.no_metadata) {
      DIF_ASSIGN(texts, png_texts(record_of(picture, index)));
    }
    const std::string path = picture_path(options_.output, index, options_.batch);
    if (cli::stop_requested()) return fail(ErrorCode::kCancelled, "stopped before {} was written", path);
    DIF_TRY(io::write_png(path,
                          crop_to_middle(picture.image, static_cast<std::uint32_t>(request_.size.width),
                                         static_cast<std::uint32_t>(request_.size.height)),
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
    record.width = request_.size.width;
    record.height = request_.size.height;
    record.padded = request_.size.width != request_.size.drawn_width ||
                    request_.size.height != request_.size.drawn_height;
    record.batch_index = index;
    record.batch_count = options_.batch;
    record.text_tokens = settings_.text_tokens;
    record.dtype = dtype_name(settings_.dtype);
    record.vae_dtype = dtype_name(settings_.vae_dtype);
    record.state_dtype = dtype_name(settings_.state_dtype);
    record.noise_dtype = dtype_name(settings_.noise_dtype);
    record.rng = settings_.noise_source.text();
    record.passes = request_.passes_text;
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
    std::string text = fmt::format("backend {}\ndtype {} ({}), VAE {}, state {}\n", request_.backend_choice,
                                   dtype_name(settings_.dtype), request_.dtype_choice,
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
    const GenerationFacts facts = {*model_,
                                   settings_,
                                   request_.size,
                                   model_digest_,
                                   backend_name_,
                                   request_.backend_choice,
                                   request_.dtype_choice};
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

  const GenerateOptions& options_;
  const cli::BackendOptions& backend_;
  const cli::StreamingOptions& streaming_;
  const cli::ReportOptions& report_;
  io::CacheStore cache_;
  GenerationRequest request_;
  GenerationSettings& settings_ = request_.settings;
  cli::Progress progress_;
  std::unique_ptr<frontends::Model> model_;
  std::unique_ptr<TextToImage> pipeline_;
  std::optional<io::HostTensor> init_latents_;
  std::string backend_name_, model_digest_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  nlohmann::ordered_json first_stages_;  ///< before there is a pipeline
  double written_seconds_ = 0;           ///< of the pictures so far of this request
  double written_before_seconds_ = 0;    ///< of the requests that were answered
  nlohmann::ordered_json requests_ = nlohmann::ordered_json::array();
  nlohmann::ordered_json pictures_ = nlohmann::ordered_json::array();
  std::optional<BackgroundDigest> digest_;  ///< until a picture needs it
};

int run(int argc, char** argv) {
  cli::Command command("dif generate", "Draw a picture from a prompt.");
  const GenerateOptions o(command);
  const cli::DtypeOptions dtypes(command);
  const cli::BackendOptions backend(command);
  const cli::StreamingOptions streaming(command);
  const cli::ReportOptions report(command);
  const cli::ProgressOptions progress(command);
  command.add_examples(
      "  dif generate \"a red apple\" -o apple.png\n"
      "  dif generate \"rocket on a pink background\" --seed 7 --steps 30 --guidance 2 -o rocket.png\n"
      "  dif generate --model ./FLUX.2-klein-4B \"a lighthouse at dusk\" --size 1024x1024 -o lighthouse.png\n"
      "  dif generate --from apple.png -o again.png\n"
      "  dif generate \"a red apple\" --passes none -o unoptimised.png\n");
  return cli::run_tool(command, argc, argv, [&] {
    return Generate(command, o, dtypes, backend, streaming, report, progress).run();
  });
}

}  // namespace

const cli::Tool k_generate = {"generate", "Pictures", "draw a picture from a prompt", run};

}  // namespace dif::tools
