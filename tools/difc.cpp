#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/command.h"
#include "cli/options.h"
#include "cli/telemetry.h"
#include "io/json.h"
#include "ir/printer.h"
#include "ir/program_file.h"
#include "ir/verifier.h"
#include "opt/pipeline.h"
#include "passes_report.h"
#include "pipelines/plan_export.h"
#include "pipelines/program_bindings.h"
#include "plan/plan_file.h"
#include "residency_options.h"
#include "tools.h"

namespace dif::tools {

namespace {

Status verify(const std::string& path) {
  DIF_ASSIGN(const ir::Program program, ir::read_program(path));
  return cli::print_result(fmt::format("{}: program {} is verified: {} operations, {} constants, {}\n", path,
                                       program.name, program.ops.size(), program.constants.size(),
                                       ir::amount_text(ir::flops(program), "FLOP")));
}

Status fingerprint(const std::string& path) {
  DIF_ASSIGN(const ir::Program program, ir::read_program(path));
  return cli::print_result(ir::fingerprint(program) + "\n");
}

/// The name of a new output: what the reference framework calls the value, else its number.
std::string output_name(const ir::Program& program, ir::ValueId value) {
  for (const ir::Provenance::Boundary& boundary : program.provenance.boundaries)
    if (boundary.value == value) return boundary.name;
  return fmt::format("value-{}", value);
}

Status expose(const std::string& in, const std::string& out, const std::vector<std::string>& ids) {
  DIF_ASSIGN(ir::Program program, ir::read_program(in));
  std::vector<ir::Output> outputs;
  for (const std::string& id : ids) {
    DIF_ASSIGN(const ir::ValueId value, find_value(program, id));
    outputs.push_back({output_name(program, value), value});
  }
  ir::expose(program, outputs);
  DIF_TRY(ir::verify(program));
  DIF_TRY(ir::write_program(out, program));
  std::string text;
  for (const ir::Output& output : outputs)
    text += fmt::format("{} = %{} : {}\n", output.name, output.value, program.type(output.value));
  return cli::print_result(text);
}

struct OptimizeOptions {
  std::string in, out, passes = "default";
  std::vector<std::string> print_after;
  bool verify_each = false, print_if_changed = false, why = false, json = false;
};

/// Prints the programs that the options ask for, after each pass.
Status print_programs(const OptimizeOptions& o, const opt::PassReport& report, const ir::Program& program) {
  const bool named = std::ranges::find(o.print_after, report.pass) != o.print_after.end();
  if (!named && !(o.print_if_changed && report.changed)) return ok();
  return cli::print_result(fmt::format("# after {}\n{}\n", report.pass, ir::to_text(program)));
}

Status optimize(const OptimizeOptions& o) {
  DIF_ASSIGN(const opt::Pipeline pipeline, opt::parse_pipeline(o.passes));
  for (const std::string& name : o.print_after) DIF_TRY(opt::parse_pipeline(name));
  if (o.json && (o.print_if_changed || !o.print_after.empty()))
    return invalid_input(
        "--json, --print-after and --print-if-changed write to standard output: leave one out");
  DIF_ASSIGN(ir::Program program, ir::read_program(o.in));
  const std::string before = ir::fingerprint(program);
  const double flops_before = ir::flops(program);
  Status printed;
  opt::PipelineOptions options = {.verify_each = o.verify_each};
  options.after_pass = [&](const opt::PassReport& report, const ir::Program& after) {
    if (printed) printed = print_programs(o, report, after);
  };
  DIF_ASSIGN(const auto reports, opt::run(program, pipeline, options));
  DIF_TRY(printed);
  DIF_TRY(ir::write_program(o.out, program));
  if (o.json) {
    nlohmann::ordered_json document = cli::telemetry_document("passes");
    document["program"] = {{"name", program.name},
                           {"fingerprint_before", before},
                           {"fingerprint_after", ir::fingerprint(program)},
                           {"flops_before", flops_before},
                           {"flops_after", ir::flops(program)}};
    document["passes"] = passes_json(reports);
    return cli::print_result(io::json_text(document));
  }
  return cli::print_result(passes_text(reports, o.why) +
                           fmt::format("{}: {} operations, {} (before: {}) -> {}\n", program.name,
                                       program.ops.size(), ir::amount_text(ir::flops(program), "FLOP"),
                                       ir::amount_text(flops_before, "FLOP"), o.out));
}

Status list_passes(bool json) {
  if (!json) return cli::print_result(pass_list_text());
  nlohmann::ordered_json document = cli::telemetry_document("pass-list");
  document.update(pass_list_json());
  return cli::print_result(io::json_text(document));
}

cli::Command add_optimize(cli::Command& tool, OptimizeOptions& o) {
  cli::Command command = tool.add_subcommand("optimize", "run passes over a program and write the result");
  command.add_option("IN", o.in, "program, IN.difir").required();
  command.add_option("OUT", o.out, "program to write, OUT.difir").required();
  command
      .add_option("--pass", o.passes,
                  "default, none, or names of passes separated by commas, in the order in which they run")
      .show_default();
  command.add_flag("--verify-each", o.verify_each, "verify after each pass and not only the result");
  command.add_option("--print-after", o.print_after, "print the program after the pass of that name")
      .split_at_commas()
      .one_at_a_time();
  command.add_flag("--print-if-changed", o.print_if_changed,
                   "print the program after each pass that changed it");
  command.add_flag("--why", o.why, "what each pass did to which operation, and why");
  command.add_flag("--json", o.json, "telemetry document on standard output");
  return command;
}

Status plan(const std::string& in, const std::string& out, const cli::BackendOptions& backend,
            const ResidencyOptions& budget) {
  DIF_ASSIGN(const ir::Program program, ir::read_program(in));
  std::string choice;
  DIF_ASSIGN(const auto context, backend.create({}, &choice));
  DIF_ASSIGN(plan::PlanRecord record, plan_program(context, program));
  if (budget.given()) plan::record_residency(record, program, budget.request());
  DIF_TRY(plan::write_plan(out, record));
  return cli::print_result(fmt::format("{}: plan of {} on backend {}, identity {}\n", out, program.name,
                                       choice, plan::plan_identity(record)));
}

int run(int argc, char** argv) {
  cli::Command tool("difc", "Verify, identify, rewrite and plan programs.");
  std::string in, out;
  std::vector<std::string> ids;
  cli::Command verify_command = tool.add_subcommand("verify", "check everything that a program promises");
  verify_command.add_option("FILE", in, "program, FILE.difir").required();
  cli::Command fingerprint_command = tool.add_subcommand("fingerprint", "print a program's identity");
  fingerprint_command.add_option("FILE", in, "program, FILE.difir").required();
  cli::Command expose_command =
      tool.add_subcommand("expose-tensors", "make internal values outputs, under their module path if known");
  expose_command.add_option("IN", in, "program, IN.difir").required();
  expose_command.add_option("OUT", out, "program to write, OUT.difir").required();
  expose_command.add_option("ID", ids, "number of a value (12 or %12), or the module path whose result it is")
      .required();
  OptimizeOptions optimize_options;
  const cli::Command optimize_command = add_optimize(tool, optimize_options);
  bool list_json = false;
  cli::Command passes_command = tool.add_subcommand("passes", "list the passes and the default pipeline");
  passes_command.add_flag("--json", list_json, "telemetry document on standard output");
  cli::Command plan_command =
      tool.add_subcommand("plan", "ask a backend what it would do with a program; no weight is needed");
  plan_command.add_option("IN", in, "program, IN.difir").required();
  plan_command.add_option("OUT", out, "plan to write, OUT.difplan").required();
  const cli::BackendOptions backend(plan_command);
  const ResidencyOptions budget(plan_command, {"--resident-plan-mib", "--resident-order"});
  tool.add_examples(
      "  difc plan step.difir step.difplan --backend cpu\n"
      "  difc verify step.difir\n"
      "  difc fingerprint step.difir\n"
      "  difc passes\n"
      "  difc optimize step.difir fast.difir --why\n"
      "  difc optimize step.difir fast.difir --pass simplify,dead_rows --print-if-changed\n"
      "  difc expose-tensors step.difir probe.difir transformer.transformer_blocks.0.attn 212\n");
  return cli::run_tool(tool, argc, argv, [&]() -> Status {
    if (verify_command.parsed()) return verify(in);
    if (fingerprint_command.parsed()) return fingerprint(in);
    if (optimize_command.parsed()) return optimize(optimize_options);
    if (passes_command.parsed()) return list_passes(list_json);
    if (plan_command.parsed()) return plan(in, out, backend, budget);
    return expose(in, out, ids);
  });
}

}  // namespace

const cli::Tool k_difc = {"difc", "Programs", "verify, fingerprint, rewrite and plan programs", run};

}  // namespace dif::tools
