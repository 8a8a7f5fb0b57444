#include "generation_report.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/machine.h"
#include "cli/progress.h"
#include "cli/telemetry.h"
#include "cli/tool.h"
#include "io/json.h"
#include "io/printable.h"
#include "passes_report.h"

namespace dif::tools {

namespace {

/// The plug-in's document; as text when it is none, or nested deeper than anything sensible.
nlohmann::ordered_json details_of(const runtime::PreparedReport& report) {
  constexpr std::uint64_t kMaxDetailsBytes = std::uint64_t{64} << 20;
  const auto document = io::JsonDocument::parse(report.details, "the backend's report",
                                                {.max_bytes = kMaxDetailsBytes, .max_depth = 64});
  return document ? nlohmann::ordered_json::parse(report.details, nullptr, false)
                  : nlohmann::ordered_json(io::printable(report.details));
}

}  // namespace

Result<nlohmann::ordered_json> generation_document(const GenerationFacts& facts,
                                                   const TextToImage& pipeline) {
  DIF_ASSIGN(const SharedMemory shared, pipeline.memory());
  const GenerationSettings& settings = facts.settings;
  const PictureSize& size = facts.size;
  nlohmann::ordered_json document = cli::telemetry_document("generation");
  document["request"] = {{"prompt", settings.prompt},
                         {"negative_prompt", settings.negative_prompt},
                         {"prompt_tokens", pipeline.prompt_tokens()},
                         {"steps", settings.steps},
                         {"guidance", settings.guidance},
                         {"guided", pipeline.guided()},
                         {"width", size.width},
                         {"height", size.height},
                         {"drawn_width", size.drawn_width},
                         {"drawn_height", size.drawn_height},
                         {"text_tokens", settings.text_tokens},
                         {"dtype", dtype_name(settings.dtype)},
                         {"dtype_choice", facts.dtype_choice},
                         {"vae_dtype", dtype_name(settings.vae_dtype)},
                         {"state_dtype", dtype_name(settings.state_dtype)},
                         {"noise_dtype", dtype_name(settings.noise_dtype)},
                         {"rng", settings.noise_source.text()}};
  document["model"] = {
      {"name", facts.model.name()}, {"family", facts.model.family()}, {"digest", facts.model_digest}};
  document["backend"] = {{"name", facts.backend_name}, {"choice", facts.backend_choice}};
  for (const ProgramReport& program : pipeline.programs()) {
    const runtime::PreparedReport& memory = program.memory;
    document["programs"].push_back({{"name", program.name},
                                    {"fingerprint", program.fingerprint},
                                    {"prepared_fingerprint", program.prepared_fingerprint},
                                    {"passes", passes_json(program.passes)},
                                    {"flops", program.flops},
                                    {"prepare_seconds", program.prepare_seconds},
                                    {"arena_bytes", memory.arena_bytes},
                                    {"workspace_bytes", memory.workspace_bytes},
                                    {"resident_bytes", memory.resident_bytes},
                                    {"streamed_bytes", memory.streamed_bytes},
                                    {"prepacked_bytes", memory.prepacked_bytes},
                                    {"pinned_host_bytes", memory.pinned_host_bytes},
                                    {"host_operations", memory.host_operations},
                                    {"details", details_of(memory)}});
    if (settings.traces)
      document["programs"].back()["operations"] = operation_times_json(pipeline.operation_times(program));
  }
  const Decoder& decoder = pipeline.decoder();
  document["decode"] = {{"way", decode_way_name(decoder.way())},
                        {"reason", decoder.reason()},
                        {"host_image_bytes", decoder.host_image_bytes()}};
  for (const DecodePart& part : decoder.parts()) {
    document["decode"]["programs"].push_back({{"name", part.program.name},
                                              {"runs", part.runs},
                                              {"rows", part.rows},
                                              {"arena_bytes", part.memory.arena_bytes},
                                              {"workspace_bytes", part.memory.workspace_bytes},
                                              {"resident_bytes", part.memory.resident_bytes},
                                              {"streamed_bytes", part.memory.streamed_bytes}});
    if (settings.traces && decoder.parts().size() > 1)
      document["decode"]["programs"].back()["operations"] =
          operation_times_json(pipeline.operation_times(part));
  }
  document["memory"] = {
      {"arena_bytes", {{"predicted", shared.predicted_arena_bytes}, {"measured", shared.arena_bytes}}},
      {"workspace_bytes",
       {{"predicted", shared.predicted_workspace_bytes}, {"measured", shared.workspace_bytes}}},
      {"device_peak_bytes", shared.device_peak_bytes}};
  document["run_launch_telemetry"] = cli::launch_telemetry(pipeline.denoise_launches());
  for (const StageTime& time : pipeline.times())
    document["stages"].push_back({{"stage", time.stage}, {"seconds", time.seconds}});
  return document;
}

std::string generation_text(const nlohmann::ordered_json& document) {
  return document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

GenerationObserver observer_of(cli::Progress& progress) {
  return {[&progress](std::string_view stage, std::uint64_t total, std::string_view unit) {
            progress.begin(stage, total, unit);
          },
          [&progress](std::uint64_t done) { progress.advance(done); }, [&progress] { progress.finish(); },
          [](std::string_view sentence) { cli::print_warning(sentence); }};
}

std::uint64_t available_memory(const std::string& backend) {
  const bool in_host_memory = backend == "cpu" || backend == "reference";
  return in_host_memory ? std::max<std::uint64_t>(cli::read_machine().memory_available_bytes, 1) : 0;
}

}  // namespace dif::tools
