#include "pipelines/dry_run.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "ir/printer.h"
#include "ir/program_file.h"
#include "pipelines/chain_builder.h"
#include "pipelines/decode_choice.h"
#include "pipelines/optimize_chain.h"

namespace dif {

namespace {

using frontends::Stage;
using nlohmann::ordered_json;

Result<PlannedProgram> describe(const Stage& stage, std::int64_t runs) {
  PlannedProgram result;
  result.name = stage.program.name;
  result.fingerprint = ir::fingerprint(stage.program);
  result.n_operations = stage.program.ops.size();
  result.flops = ir::flops(stage.program);
  result.runs = runs;
  DIF_ASSIGN(const auto refs, stage.constants.bind(stage.program));
  for (const frontends::ConstantRef& ref : refs)
    if (ref.file != nullptr) result.mapped_bytes += ref.type.bytes();
  return result;
}

/// `planned` keeps what the later stages are planned beside.
Result<PlannedProgram> plan_stage(const Stage& stage, const std::shared_ptr<runtime::Context>& context,
                                  std::int64_t runs, std::unique_ptr<runtime::PreparedProgram>& planned) {
  DIF_ASSIGN(PlannedProgram result, describe(stage, runs));
  planned.reset();
  DIF_ASSIGN(planned, runtime::PreparedProgram::prepare_plan(context, stage.program));
  DIF_ASSIGN(result.memory, planned->report());
  return result;
}

Result<PlannedProgram> plan_decode(const Stage& stage, const std::shared_ptr<runtime::Context>& context,
                                   std::int64_t runs, DecodeChoice& choice,
                                   std::unique_ptr<Decoder>& planned) {
  DIF_ASSIGN(PlannedProgram result, describe(stage, runs));
  planned.reset();
  DIF_ASSIGN(planned, choice.make([&](const ir::Program& program) {
    return runtime::PreparedProgram::prepare_plan(context, program);
  }));
  result.memory = memory_of(planned->parts());
  result.flops = 0;
  result.n_operations = 0;
  for (const DecodePart& part : planned->parts()) {
    result.flops += ir::flops(part.program) * static_cast<double>(part.runs);
    result.n_operations += part.program.ops.size() * static_cast<std::size_t>(part.runs);
  }
  return result;
}

PlannedStage together(std::string name, std::initializer_list<const PlannedProgram*> programs) {
  PlannedStage stage;
  stage.name = std::move(name);
  for (const PlannedProgram* program : programs) {
    stage.programs.push_back(program->name);
    stage.arena_bytes = std::max(stage.arena_bytes, program->memory.arena_bytes);
    stage.workspace_bytes = std::max(stage.workspace_bytes, program->memory.workspace_bytes);
    stage.resident_bytes += program->memory.resident_bytes;
    stage.prepacked_bytes += program->memory.prepacked_bytes;
    stage.streamed_bytes += program->memory.streamed_bytes;
    stage.mapped_bytes += program->mapped_bytes;
  }
  return stage;
}

/// The programs of a chain, and under which name their time is taken.
struct TimedProgram {
  const char *name, *stage;
};
constexpr TimedProgram kTimed[] = {{"encode", "encode"}, {"step", "denoise"}, {"decode", "decode"}};

/// A decode in parts has a speed of its own.
SpeedConditions conditions_of(SpeedConditions backend, const std::string& program,
                              const GenerationSettings& settings, const Decoder& decoder) {
  backend.program = program;
  if (program == "decode" && decoder.way() != DecodeWay::kWhole)
    backend.program += fmt::format(" {}", decode_way_name(decoder.way()));
  backend.dtype = dtype_name(program == "decode" ? settings.vae_dtype : settings.dtype);
  return backend;
}

std::string time_text(const DryRun& run) {
  std::string known, unknown;
  for (const PlannedProgram& program : run.programs)
    if (const std::optional<Speed>& speed = program.speed)
      known += fmt::format("{}{} {}/s at {} a run", known.empty() ? "" : ", ", program.name,
                           ir::amount_text(speed->flops_per_second, "FLOP"),
                           ir::amount_text(speed->flops_a_run, "FLOP"));
    else
      unknown += fmt::format("{}{}", unknown.empty() ? "" : ", ", program.name);
  if (const auto seconds = run.seconds())
    return fmt::format(
        "time       about {:.3g} s, without preparing the denoiser: this machine achieved {}\n", *seconds,
        known);
  return fmt::format(
      "time       no estimate: no picture was drawn here with this backend, dtype, number of threads and way "
      "to decode (no record of {})\n",
      unknown);
}

std::string bytes_text(std::uint64_t bytes) {
  return ir::amount_text(static_cast<double>(bytes), "B");
}

}  // namespace

Result<DryRun> dry_run(const frontends::Model& model, const std::shared_ptr<runtime::Context>& context,
                       const GenerationSettings& settings, std::int64_t n_pictures, io::CacheStore& speeds,
                       const SpeedConditions& backend) {
  DIF_ASSIGN(frontends::Chain chain, build_chain(model, settings));
  const opt::Pipeline passes = passes_for(settings, context->library());
  const ir::Program built_decode = chain.decode.program;
  DIF_TRY(optimize_chain(chain, passes));
  const bool guided = guidance_is_active(model, settings.guidance);
  DecodeChoice choice(model, settings, built_decode, chain, passes, context->memory_cap_bytes());
  const Status fits = choice.fit_into_host_memory();
  if (!fits && fits.error().code != ErrorCode::kOutOfMemory) return tl::unexpected<Error>(fits.error());
  std::unique_ptr<runtime::PreparedProgram> encoder, denoiser;
  std::unique_ptr<Decoder> decoder;
  DIF_ASSIGN(PlannedProgram encode, plan_stage(chain.encode, context, guided ? 2 : 1, encoder));
  encoder.reset();
  DIF_ASSIGN(PlannedProgram decode, plan_decode(chain.decode, context, n_pictures, choice, decoder));
  auto step = plan_stage(chain.step, context, settings.steps * n_pictures, denoiser);
  while (!step && choice.give_way(step.error())) {
    DIF_ASSIGN(decode, plan_decode(chain.decode, context, n_pictures, choice, decoder));
    step = plan_stage(chain.step, context, settings.steps * n_pictures, denoiser);
  }
  if (!step) return tl::unexpected<Error>(std::move(step.error()));
  DryRun result;
  result.stages.push_back(together("encode", {&encode}));
  result.stages.push_back(together("denoise and decode", {&*step, &decode}));
  result.programs = {std::move(encode), std::move(*step), std::move(decode)};
  for (PlannedProgram& program : result.programs) {
    result.flops += program.flops * static_cast<double>(program.runs);
    program.speed =
        find_speed(speeds, conditions_of(backend, program.name, settings, *decoder), program.flops);
  }
  result.available_bytes = settings.available_bytes;
  result.decode = decode_text(*decoder);
  if (!fits) result.refusal = fits.error().message;
  return result;
}

std::optional<double> DryRun::seconds() const {
  double total = 0;
  for (const PlannedProgram& program : programs) {
    if (!program.speed) return std::nullopt;
    total += program.flops * static_cast<double>(program.runs) / program.speed->flops_per_second;
  }
  return total;
}

void note_speeds(io::CacheStore& speeds, const SpeedConditions& backend, const GenerationSettings& settings,
                 const TextToImage& pipeline, std::int64_t n_pictures) {
  const auto runs_of = [&](std::string_view name) -> std::int64_t {
    if (name == "encode") return pipeline.guided() ? 2 : 1;
    return name == "step" ? settings.steps * n_pictures : n_pictures;
  };
  for (const TimedProgram& timed : kTimed) {
    const auto program = std::ranges::find(pipeline.programs(), timed.name, &ProgramReport::name);
    if (program == pipeline.programs().end()) continue;
    double seconds = 0;
    for (const StageTime& time : pipeline.times())
      if (time.stage == timed.stage) seconds += time.seconds;
    note_speed(speeds, conditions_of(backend, timed.name, settings, pipeline.decoder()), program->flops,
               runs_of(timed.name), seconds);
  }
}

std::string dry_run_text(const DryRun& run) {
  std::string text =
      fmt::format("{:<10} {:>5} {:>10} {:>12} {:>10} {:>10} {:>10} {:>10}\n", "program", "runs", "operations",
                  "FLOP a run", "arena", "workspace", "prepacked", "mapped");
  for (const PlannedProgram& program : run.programs)
    text += fmt::format("{:<10} {:>5} {:>10} {:>12} {:>10} {:>10} {:>10} {:>10}\n", program.name,
                        program.runs, program.n_operations, ir::amount_text(program.flops, "FLOP"),
                        bytes_text(program.memory.arena_bytes), bytes_text(program.memory.workspace_bytes),
                        bytes_text(program.memory.prepacked_bytes), bytes_text(program.mapped_bytes));
  text += "\nmemory, stage by stage\n";
  for (const PlannedStage& stage : run.stages)
    text += fmt::format("  {}: arena {}, workspace {}, resident {}, prepacked {}, mapped {}; {}\n",
                        stage.name, bytes_text(stage.arena_bytes), bytes_text(stage.workspace_bytes),
                        bytes_text(stage.resident_bytes), bytes_text(stage.prepacked_bytes),
                        bytes_text(stage.mapped_bytes),
                        stage.streamed_bytes == 0 ? "nothing is streamed"
                                                  : bytes_text(stage.streamed_bytes) + " are streamed");
  if (run.available_bytes != 0) text += fmt::format("  {} are available\n", bytes_text(run.available_bytes));
  if (!run.refusal.empty()) text += fmt::format("  a run is refused here: {}\n", run.refusal);
  text += run.decode + "\n";
  text += fmt::format("work       {}\n", ir::amount_text(run.flops, "FLOP"));
  return text + time_text(run);
}

ordered_json dry_run_json(const DryRun& run) {
  ordered_json result = {
      {"programs", ordered_json::array()},
      {"stages", ordered_json::array()},
      {"flops", run.flops},
      {"available_bytes", run.available_bytes},
      {"decode", run.decode},
      {"refusal", run.refusal.empty() ? ordered_json(nullptr) : ordered_json(run.refusal)}};
  const auto seconds = run.seconds();
  result["estimated_seconds"] = seconds ? ordered_json(*seconds) : ordered_json(nullptr);
  for (const PlannedProgram& program : run.programs) {
    result["programs"].push_back({{"name", program.name},
                                  {"fingerprint", program.fingerprint},
                                  {"operations", program.n_operations},
                                  {"flops", program.flops},
                                  {"runs", program.runs},
                                  {"arena_bytes", program.memory.arena_bytes},
                                  {"workspace_bytes", program.memory.workspace_bytes},
                                  {"resident_bytes", program.memory.resident_bytes},
                                  {"prepacked_bytes", program.memory.prepacked_bytes},
                                  {"streamed_bytes", program.memory.streamed_bytes},
                                  {"mapped_bytes", program.mapped_bytes}});
    if (program.speed)
      result["programs"].back()["achieved"] = {{"flops_per_second", program.speed->flops_per_second},
                                               {"flops", program.speed->flops_a_run}};
  }
  for (const PlannedStage& stage : run.stages)
    result["stages"].push_back({{"name", stage.name},
                                {"programs", stage.programs},
                                {"arena_bytes", stage.arena_bytes},
                                {"workspace_bytes", stage.workspace_bytes},
                                {"resident_bytes", stage.resident_bytes},
                                {"prepacked_bytes", stage.prepacked_bytes},
                                {"streamed_bytes", stage.streamed_bytes},
                                {"mapped_bytes", stage.mapped_bytes}});
  return result;
}

}  // namespace dif
