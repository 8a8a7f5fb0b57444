#include "pipelines/chain_programs.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "ir/program_file.h"
#include "pipelines/chain_builder.h"
#include "pipelines/plan_export.h"

namespace dif {

using frontends::Stage;
using runtime::PreparedProgram;

namespace {

/// What every error about values ends in.
Error with_way_out(Error error) {
  if (error.code == ErrorCode::kNonFinite) error.message += "; --allow-nonfinite writes the picture anyway";
  return error;
}

}  // namespace

Status ChainPrograms::build() {
  DIF_ASSIGN(chain_, build_chain(model_, settings_));
  for (const Stage* stage : {&chain_.encode, &chain_.step, &chain_.decode})
    built_.emplace(stage->program.name, stage->program);
  passes_ = passes_for(settings_, context_->library());
  DIF_ASSIGN(pass_reports_, optimize_chain(chain_, passes_));
  return ok();
}

Result<std::unique_ptr<PreparedProgram>> ChainPrograms::prepare_program(
    const ir::Program& program, const frontends::ConstantSet& set) const {
  DIF_ASSIGN(const auto refs, set.bind(program));
  std::vector<runtime::ConstantBinding> constants;
  for (const frontends::ConstantRef& ref : refs)
    constants.push_back(
        {ref.data, ref.type.bytes(), ref.file == nullptr ? -1 : ref.file->fd(), ref.file_offset});
  runtime::ExecutionOptions execution;
  if (settings_.step_execution && program.name == chain_.step.program.name) {
    DIF_ASSIGN(execution, settings_.step_execution(program));
  }
  execution.stream_weights = settings_.stream_encoder && program.name == chain_.encode.program.name;
  return PreparedProgram::prepare(context_, program, constants, execution);
}

Result<std::unique_ptr<PreparedProgram>> ChainPrograms::prepare(const Stage& stage) {
  const auto start = std::chrono::steady_clock::now();
  DIF_ASSIGN(auto prepared, prepare_program(stage.program, stage.constants));
  DIF_TRY(add_report(stage, *prepared, seconds_since(start)));
  return prepared;
}

Status ChainPrograms::add_report(const Stage& stage, const PreparedProgram& prepared, double seconds) {
  DIF_ASSIGN(runtime::PreparedReport memory, prepared.report());
  std::optional<plan::PlanRecord> plan;
  if (settings_.record_plans) {
    DIF_ASSIGN(plan, record_plan(stage.program, memory, context_->library().name()));
  }
  replace_report(stage, ir::flops(stage.program), std::move(memory), seconds).plan = std::move(plan);
  return ok();
}

Status ChainPrograms::add_report(const Decoder& decoder, double seconds) {
  const std::vector<DecodePart>& parts = decoder.parts();
  double flops = 0;
  for (const DecodePart& part : parts) flops += ir::flops(part.program) * static_cast<double>(part.runs);
  ProgramReport& report = replace_report(chain_.decode, flops, memory_of(parts), seconds);
  if (!settings_.record_plans) return ok();
  for (const DecodePart& part : parts) {
    DIF_ASSIGN(plan::PlanRecord plan, record_plan(part.program, part.memory, context_->library().name()));
    plan.decisions.push_back({plan::DecisionKind::kTarget, plan::SubjectKind::kPlan, 0,
                              fmt::format("decode {}", decode_way_name(decoder.way())), decoder.reason()});
    if (&part == &parts.front())
      report.plan = std::move(plan);
    else
      report.part_plans.push_back(std::move(plan));
  }
  return ok();
}

ProgramReport& ChainPrograms::replace_report(const Stage& stage, double flops, runtime::PreparedReport memory,
                                             double seconds) {
  const std::string& name = stage.program.name;
  std::erase_if(reports_, [&](const ProgramReport& known) { return known.name == name; });
  reports_.push_back({name,
                      ir::fingerprint(built(stage)),
                      ir::fingerprint(stage.program),
                      pass_reports_.at(name),
                      flops,
                      std::move(memory),
                      seconds,
                      {},
                      {}});
  const auto position = [&](const ProgramReport& program) {
    return program.name == chain_.encode.program.name ? 0 : program.name == chain_.step.program.name ? 1 : 2;
  };
  std::ranges::stable_sort(reports_, {}, position);
  return *std::ranges::find(reports_, name, &ProgramReport::name);
}

Error ChainPrograms::explain(const Stage& stage, std::string_view where,
                             const std::function<Status(PreparedProgram&)>& run_checked) const {
  const Status files = model_.check_files();  // a checkpoint that shrank reads as zeros
  if (!files) return files.error();
  const auto checked = prepare_program(built(stage), stage.constants);
  if (!checked) return checked.error();
  const Status status = run_checked(**checked);
  if (status)
    return {
        ErrorCode::kNonFinite,
        fmt::format("{}: the result holds NaN or infinity, but not when the program is run once more without "
                    "its passes",
                    where)};
  Error error = status.error();
  error.message = fmt::format("{}: {}", where, error.message);
  if (const auto op = (*checked)->failed_operation())
    error.message += ", module " + module_of(built(stage), *op);
  return with_way_out(std::move(error));
}

Error ChainPrograms::explain_parts(Decoder& decoder, std::span<std::byte> latents,
                                   std::span<float> image) const {
  const Status files = model_.check_files();
  if (!files) return files.error();
  const Status status = decoder.find_nonfinite(latents, image);
  if (status)
    return {ErrorCode::kNonFinite,
            "decode: the picture holds NaN or infinity, but not when its operations run one by one"};
  Error error = status.error();
  error.message = "decode: " + error.message;
  return with_way_out(std::move(error));
}

}  // namespace dif
