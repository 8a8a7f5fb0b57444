#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/error.h"
#include "cli/command.h"
#include "cli/options.h"
#include "cli/telemetry.h"
#include "io/json.h"
#include "ir/program_file.h"
#include "pipelines/plan_report.h"
#include "plan/plan_file.h"
#include "residency_options.h"
#include "tools.h"

namespace dif::tools {

namespace {

using nlohmann::ordered_json;
using plan::PlanRecord;

struct Options {
  std::string plan, other, program;
  std::uint32_t id = 0;
};

/// Prints the text, or the document of kind plan-report whose member `name` is `content`.
Status print(const cli::ReportOptions& report, const std::string& text, const char* name,
             ordered_json content) {
  if (report.wanted()) {
    ordered_json document = cli::telemetry_document("plan-report");
    document[name] = std::move(content);
    DIF_TRY(report.write(io::json_text(document)));
  }
  return report.json ? ok() : cli::print_result(text);
}

Status show(const Options& options, const cli::ReportOptions& report) {
  DIF_ASSIGN(const PlanRecord plan, plan::read_plan(options.plan));
  return print(report, plan_text(plan), "plan", plan_json(plan));
}

Status diff(const Options& options, const cli::ReportOptions& report) {
  DIF_ASSIGN(const PlanRecord a, plan::read_plan(options.plan));
  DIF_ASSIGN(const PlanRecord b, plan::read_plan(options.other));
  const auto differences = diff_plans(a, b);
  return print(report, diff_text(differences), "differences", diff_json(differences));
}

/// The program of --program, which must be the plan's where there is a plan.
Result<std::optional<ir::Program>> read_program(const Options& options, const PlanRecord* plan) {
  if (options.program.empty()) return std::nullopt;
  DIF_ASSIGN(ir::Program program, ir::read_program(options.program));
  if (plan != nullptr) DIF_TRY(plan::check_plan_of(*plan, options.plan, program, options.program));
  return program;
}

Status recorded_residency(const Options& options, const cli::ReportOptions& report) {
  DIF_ASSIGN(const PlanRecord plan, plan::read_plan(options.plan));
  DIF_ASSIGN(const std::optional<ir::Program> program, read_program(options, &plan));
  if (!plan.residency)
    return invalid_input("{}: no residency is recorded: the plan was made without a budget", options.plan);
  const ir::Program* names = program ? &*program : nullptr;
  return print(report, residency_text(*plan.residency, names), "residency",
               residency_json(*plan.residency, names));
}

Status residency(const Options& options, const ResidencyOptions& budget, const cli::ReportOptions& report) {
  if (!options.plan.empty() && budget.given())
    return invalid_input("{} records its own budget; leave --budget-mib out", options.plan);
  if (!options.plan.empty()) return recorded_residency(options, report);
  if (options.program.empty() || !budget.given())
    return invalid_input("a PLAN.difplan is needed, or --program FILE.difir and --budget-mib N");
  DIF_ASSIGN(const std::optional<ir::Program> program, read_program(options, nullptr));
  const plan::Residency placed = plan::place_weights(*program, plan::make_plan(*program), budget.request());
  return print(report, residency_text(placed, &*program), "residency", residency_json(placed, &*program));
}

Status explain(const Options& options, plan::SubjectKind kind, const cli::ReportOptions& report) {
  DIF_ASSIGN(const PlanRecord plan, plan::read_plan(options.plan));
  DIF_ASSIGN(const std::optional<ir::Program> program, read_program(options, &plan));
  const PlanSubject subject = {kind, options.id};
  DIF_TRY(check_subject(plan, subject));
  const ir::Program* names = program ? &*program : nullptr;
  return print(report, explain_text(plan, subject, names), "explanation", explain_json(plan, subject, names));
}

int run(int argc, char** argv) {
  cli::Command tool("difplan", "Read what a backend decided about a program, and why.");
  Options o;
  const auto add_program = [&](cli::Command command) {
    command.add_option("--program", o.program, "FILE.difir, for names and types");
  };
  cli::Command show_command = tool.add_subcommand("show", "print a plan: steps, kernels, memory");
  show_command.add_option("PLAN", o.plan, "PLAN.difplan").required();
  const cli::ReportOptions show_report(show_command);

  cli::Command diff_command = tool.add_subcommand("diff", "print what differs between two plans");
  diff_command.add_option("A", o.plan, "A.difplan").required();
  diff_command.add_option("B", o.other, "B.difplan").required();
  const cli::ReportOptions diff_report(diff_command);

  cli::Command residency_command =
      tool.add_subcommand("residency", "print which weights stay on the device: recorded, or for a budget");
  residency_command.add_option("PLAN", o.plan, "PLAN.difplan");
  add_program(residency_command);
  const ResidencyOptions budget(residency_command, {"--budget-mib", "--order"});
  const cli::ReportOptions residency_report(residency_command);

  cli::Command explain_command =
      tool.add_subcommand("explain", "print the decisions about one tensor or operation");
  cli::Command tensor_command = explain_command.add_subcommand("tensor", "about a value");
  cli::Command op_command = explain_command.add_subcommand("op", "about an operation");
  for (cli::Command command : {tensor_command, op_command}) {
    command.add_option("ID", o.id, "its number").required().expect_whole(0, UINT32_MAX);
    command.add_option("PLAN", o.plan, "PLAN.difplan").required();
    add_program(command);
  }
  const cli::ReportOptions tensor_report(tensor_command), op_report(op_command);

  tool.add_examples(
      "  difc plan chain/step.difir step.difplan --backend cpu\n"
      "  difplan show step.difplan\n"
      "  difplan explain op 54 step.difplan --program chain/step.difir\n"
      "  difplan residency --program chain/step.difir --budget-mib 8 --order largest\n");
  return cli::run_tool(tool, argc, argv, [&]() -> Status {
    if (show_command.parsed()) return show(o, show_report);
    if (diff_command.parsed()) return diff(o, diff_report);
    if (residency_command.parsed()) return residency(o, budget, residency_report);
    if (tensor_command.parsed()) return explain(o, plan::SubjectKind::kValue, tensor_report);
    return explain(o, plan::SubjectKind::kOperation, op_report);
  });
}

}  // namespace

const cli::Tool k_difplan = {"difplan", "Programs", "print what a backend decided about a program", run};

}  // namespace dif::tools
