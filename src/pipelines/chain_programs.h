#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dif/status.h"
#include "frontends/model.h"
#include "opt/pipeline.h"
#include "pipelines/generation_settings.h"
#include "pipelines/optimize_chain.h"
#include "plan/plan_record.h"
#include "runtime/session.h"

namespace dif {

/// One program of the chain as it was prepared.
struct ProgramReport {
  std::string name;
  std::string fingerprint;           ///< as the frontend built it
  std::string prepared_fingerprint;  ///< after the passes
  std::vector<opt::PassReport> passes;
  double flops = 0;  ///< after the passes
  runtime::PreparedReport memory;
  double prepare_seconds = 0;            ///< the backend's part of it is in memory.details
  std::optional<plan::PlanRecord> plan;  ///< with GenerationSettings::record_plans
  /// Likewise, of a decode in slabs: `plan` and the details of `memory` are those of its first program, here
  /// are the others.
  std::vector<plan::PlanRecord> part_plans;
};

/// The programs of one request on one context: as the frontend built them and as the passes left them.
/// Prepares them, keeps what a report says of each, and finds out where values stop being finite.
class ChainPrograms {
 public:
  /// `model` and `settings` outlive the result.
  ChainPrograms(const frontends::Model& model, std::shared_ptr<runtime::Context> context,
                const GenerationSettings& settings)
      : model_(model), context_(std::move(context)), settings_(settings) {}

  /// Builds the chain and runs the passes. Errors: those of build_chain, Internal.
  Status build();

  /// After the passes. It stays where it is.
  const frontends::Chain& chain() const { return chain_; }
  /// A stage's program before the passes.
  const ir::Program& built(const frontends::Stage& stage) const { return built_.at(stage.program.name); }
  const opt::Pipeline& passes() const { return passes_; }

  /// A program with constants of its stage, on the context. Errors: those of
  /// runtime::PreparedProgram::prepare.
  Result<std::unique_ptr<runtime::PreparedProgram>> prepare_program(const ir::Program& program,
                                                                    const frontends::ConstantSet& set) const;
  /// A stage's program; reports() has it afterwards.
  Result<std::unique_ptr<runtime::PreparedProgram>> prepare(const frontends::Stage& stage);
  /// Takes what was prepared into reports(), in the place of what was there by that name.
  Status add_report(const frontends::Stage& stage, const runtime::PreparedProgram& prepared, double seconds);
  Status add_report(const Decoder& decoder, double seconds);
  /// In the order of the chain.
  const std::vector<ProgramReport>& reports() const { return reports_; }

  /// Runs a stage's program as the frontend built it with a look at every operation, so that the error names
  /// the first bad one, with its module. `where` is the sentence's beginning. The stage's prepared program
  /// has to be gone: the memory may not hold both. Always an error.
  Error explain(const frontends::Stage& stage, std::string_view where,
                const std::function<Status(runtime::PreparedProgram&)>& run_checked) const;
  /// Likewise a decode in parts, in the memory that they have: the whole may not fit.
  Error explain_parts(Decoder& decoder, std::span<std::byte> latents, std::span<float> image) const;

 private:
  ProgramReport& replace_report(const frontends::Stage& stage, double flops, runtime::PreparedReport memory,
                                double seconds);

  const frontends::Model& model_;
  const std::shared_ptr<runtime::Context> context_;
  const GenerationSettings& settings_;
  opt::Pipeline passes_;
  frontends::Chain chain_;
  std::map<std::string, ir::Program> built_;  ///< by name
  ChainPasses pass_reports_;
  std::vector<ProgramReport> reports_;
};

}  // namespace dif
