#include "opt/pipeline.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "ir/verifier.h"

namespace dif::opt {

Pipeline default_pipeline(const Preferences& preferences) {
  Pipeline pipeline = {
      &kDeadCode, &kSimplify,        &kCommonSubexpressions, &kHoistStep,
      &kDeadRows, &kParallelLinears, &kSplitLinears,         &kRotateParts,
      &kLayout,   &kSimplify,        &kCommonSubexpressions, &kDeadCode,
  };
  const auto before_layout = [&](const Pass& pass) {
    pipeline.insert(std::ranges::find(pipeline, &kLayout), &pass);
  };
  if (preferences.channels_last) before_layout(kChannelsLast);
  if (preferences.channels_last && preferences.folded_upsampling) before_layout(kFoldUpsample);
  if (preferences.joined_linears) std::erase(pipeline, &kSplitLinears);
  return pipeline;
}

std::vector<const Pass*> all_passes() {
  return {&kDeadCode,        &kSimplify,     &kCommonSubexpressions, &kHoistStep,    &kDeadRows,
          &kParallelLinears, &kSplitLinears, &kRotateParts,          &kChannelsLast, &kFoldUpsample,
          &kLayout};
}

Result<Pipeline> parse_pipeline(std::string_view text, const Preferences& preferences) {
  if (text == "default") return default_pipeline(preferences);
  if (text == "none") return Pipeline();
  Pipeline pipeline;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t end = std::min(text.find(',', start), text.size());
    const std::string_view name = text.substr(start, end - start);
    const auto all = all_passes();
    const auto found = std::ranges::find(all, name, &Pass::name);
    if (found == all.end()) {
      std::vector<std::string_view> names;
      for (const Pass* pass : all) names.push_back(pass->name);
      return invalid_input("there is no pass \"{}\"; expected default, none, or some of {}",
                           name.substr(0, 40), fmt::join(names, ", "));
    }
    pipeline.push_back(*found);
    start = end + 1;
  }
  return pipeline;
}

std::string pipeline_text(const Pipeline& pipeline) {
  std::vector<std::string_view> names;
  for (const Pass* pass : pipeline) names.push_back(pass->name);
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ","));
}

namespace {

Result<PassReport> run_one(ir::Program& program, const Pass& pass) {
  PassReport report;
  report.pass = pass.name;
  report.operations_before = program.ops.size();
  const auto start = std::chrono::steady_clock::now();
  Editor editor(program);
  DIF_TRY(apply(editor, pass.rules, report.decisions));
  if (pass.function != nullptr) DIF_TRY(pass.function(editor, report.decisions));
  editor.finish();
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  report.changed = editor.changes() != 0;
  report.operations_after = program.ops.size();
  for (Decision& decision : report.decisions) decision.kind = pass.name;
  return report;
}

/// A broken program is a pass's fault, whatever the verifier calls it.
Status verify_after(const ir::Program& program, std::string_view pass) {
  Status status = ir::verify(program);
  if (status) return ok();
  return fail(ErrorCode::kInternal, "pass {} broke program {}: {}", pass, program.name,
              status.error().message);
}

}  // namespace

Result<std::vector<PassReport>> run(ir::Program& program, const Pipeline& pipeline,
                                    const PipelineOptions& options) {
  std::vector<PassReport> reports;
  for (const Pass* pass : pipeline) {
    auto report = run_one(program, *pass);
    if (!report)
      return with_context(std::move(report.error()), "in pass {} of program {}", pass->name, program.name);
    if (report->changed && options.verify_each) DIF_TRY(verify_after(program, pass->name));
    if (options.after_pass) options.after_pass(*report, program);
    reports.push_back(std::move(*report));
  }
  if (!pipeline.empty() && !options.verify_each) DIF_TRY(verify_after(program, "pipeline"));
  return reports;
}

}  // namespace dif::opt
