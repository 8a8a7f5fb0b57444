#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <variant>

#include "base/error.h"
#include "cli/command.h"
#include "cli/options.h"
#include "cli/telemetry.h"
#include "io/json.h"
#include "io/weight_bundle.h"
#include "ir/printer.h"
#include "ir/program_file.h"
#include "ir/provenance_file.h"
#include "pipelines/plan_report.h"
#include "plan/plan.h"
#include "plan/plan_file.h"
#include "plan/plan_text.h"
#include "residency_options.h"
#include "tools.h"

namespace dif::tools {

namespace {

using ir::OpId;
using ir::Program;
using ir::ValueId;
using nlohmann::ordered_json;

constexpr std::string_view kSidecarEnding = ".provenance.json";

struct Options {
  std::string file, provenance, bundle, plan;
  std::int64_t op = -1;
  bool assignments = false, source = false;
};

ordered_json attr_json(const ir::Attr& attr) {
  return std::visit(
      [](const auto& value) -> ordered_json {
        if constexpr (std::is_same_v<std::decay_t<decltype(value)>, DType>)
          return dtype_name(value);
        else
          return value;
      },
      attr);
}

ordered_json value_json(const Program& program, ValueId id) {
  const ir::TensorType& type = program.type(id);
  ordered_json result = {{"value", id}};
  if (!program.values[id].name.empty()) result["name"] = program.values[id].name;
  result["dtype"] = dtype_name(type.dtype);
  result["shape"] = std::vector<std::int64_t>(type.shape.dims().begin(), type.shape.dims().end());
  return result;
}

std::string module_of(const Program& program, OpId op) {
  const auto& modules = program.provenance.op_modules;
  return op < modules.size() ? modules[op] : "";
}

// --- form A: the listing ----------------------------------------------------------------------------------

ordered_json op_json(const Program& program, const plan::Plan& plan, OpId id) {
  const ir::Op& op = program.ops[id];
  const ir::OpView view = program.view(id);
  ordered_json attrs = ordered_json::object();
  for (std::size_t i = 0; i < op.attrs.size(); ++i)
    attrs[std::string(op.def->attrs[i].name)] = attr_json(op.attrs[i]);
  ordered_json results = ordered_json::array();
  for (const ValueId result : op.results) results.push_back(value_json(program, result));
  return {{"operation", id},
          {"name", op.def->name},
          {"operands", op.operands},
          {"results", results},
          {"attributes", attrs},
          {"module", module_of(program, id)},
          {"flops", ir::flops(view)},
          {"bytes_moved", ir::bytes_moved(view)},
          {"folded", static_cast<bool>(plan.folded[id])}};
}

ordered_json assignments_json(const Program& program, const plan::Plan& plan) {
  ordered_json result = ordered_json::array();
  for (ValueId id = 0; id < plan.values.size(); ++id) {
    ordered_json place = {{"value", id},
                          {"storage", plan::storage_name(plan.values[id].storage)},
                          {"root", plan.values[id].root},
                          {"bytes", program.type(id).bytes()}};
    if (plan.values[id].storage == plan::Storage::kArena) place["offset"] = plan.values[id].offset;
    result.push_back(std::move(place));
  }
  return result;
}

std::string listing_document(const Program& program, const plan::Plan& plan, bool assignments,
                             const std::optional<plan::Residency>& residency) {
  ordered_json result = cli::telemetry_document("program");
  result["program"] = {{"name", program.name},
                       {"fingerprint", ir::fingerprint(program)},
                       {"creator", program.provenance.creator}};
  for (const char* list : {"inputs", "constants", "outputs", "operations"})
    result[list] = ordered_json::array();
  for (const ValueId id : program.inputs) result["inputs"].push_back(value_json(program, id));
  for (const ValueId id : program.constants) result["constants"].push_back(value_json(program, id));
  for (const ir::Output& output : program.outputs) {
    ordered_json entry = value_json(program, output.value);
    entry["name"] = output.name;
    result["outputs"].push_back(std::move(entry));
  }
  double moved = 0, constants = 0;
  for (const ValueId id : program.constants) constants += static_cast<double>(program.type(id).bytes());
  for (OpId id = 0; id < program.ops.size(); ++id) {
    result["operations"].push_back(op_json(program, plan, id));
    moved += static_cast<double>(ir::bytes_moved(program.view(id)));
  }
  result["totals"] = {{"operations", program.ops.size()},
                      {"flops", ir::flops(program)},
                      {"bytes_moved", moved},
                      {"constant_bytes", constants}};
  result["plan"] = {{"arena_bytes", plan.arena_bytes},
                    {"unshared_bytes", plan.unshared_bytes},
                    {"folded_operations", std::ranges::count(plan.folded, true)}};
  if (assignments) result["assignments"] = assignments_json(program, plan);
  if (residency) result["residency"] = residency_json(*residency, &program);
  return io::json_text(result);
}

/// Lines of our own are comments, as in the listing itself.
std::string listing_text(const Program& program, const plan::Plan& plan, bool assignments,
                         const std::optional<plan::Residency>& residency) {
  const auto bytes = [](std::uint64_t amount) { return ir::amount_text(static_cast<double>(amount), "B"); };
  std::string text = ir::to_text(program, {.modules = true, .costs = true});
  text += fmt::format("# fingerprint {}\n", ir::fingerprint(program));
  if (!program.provenance.creator.empty()) text += fmt::format("# made by {}\n", program.provenance.creator);
  text +=
      fmt::format("# arena {} ({} if no two values shared bytes), {} operations folded when prepared\n",
                  bytes(plan.arena_bytes), bytes(plan.unshared_bytes), std::ranges::count(plan.folded, true));
  if (assignments) text += fmt::format("\n{}", plan::assignments_text(program, plan));
  if (residency) text += fmt::format("\n{}", residency_text(*residency, &program));
  return text;
}

// --- form B: where each operation comes from --------------------------------------------------------------

/// The constants that a value is or was folded from.
void collect_constants(const Program& program, ValueId value, const plan::Plan& plan,
                       std::set<ValueId>& found) {
  const ir::ValueInfo& info = program.values[value];
  if (info.kind == ir::ValueKind::kConstant) found.insert(value);
  if (info.kind == ir::ValueKind::kResult && plan.folded[info.producer])
    for (const ValueId operand : program.ops[info.producer].operands)
      collect_constants(program, operand, plan, found);
}

/// One operation joined with what is known about it. A missing link is null.
ordered_json source_json(const Program& program, OpId id, const plan::Plan& plan,
                         const std::optional<io::BundleRecord>& bundle,
                         const std::optional<plan::PlanRecord>& recorded) {
  const ir::Op& op = program.ops[id];
  const std::string module = module_of(program, id);
  ordered_json result = {{"operation", id}, {"text", ir::op_text(program, id)}};
  result["module"] = module.empty() ? ordered_json() : ordered_json(module);
  result["result_of"] = ordered_json::array();
  for (const ir::Provenance::Boundary& boundary : program.provenance.boundaries)
    if (std::ranges::count(op.results, boundary.value) != 0) result["result_of"].push_back(boundary.name);
  result["weights"] = ordered_json::array();
  std::set<ValueId> constants;
  for (const ValueId operand : op.operands) collect_constants(program, operand, plan, constants);
  for (const ValueId constant : constants) {
    ordered_json weight = value_json(program, constant);
    weight["identity"] = nullptr;
    if (bundle) {
      const auto tensor =
          std::ranges::find(bundle->tensors, program.values[constant].name, &io::BundleTensor::name);
      if (tensor != bundle->tensors.end()) {
        const io::BundleShard& shard = bundle->shards[tensor->shard];
        weight["identity"] = {{"shard", shard.path},
                              {"offset", tensor->offset},
                              {"bytes", tensor->bytes},
                              {"shard_sha256", io::hex(shard.sha256)}};
      }
    }
    result["weights"].push_back(std::move(weight));
  }
  result["transforms"] = nullptr;  // recorded by a .difplan
  if (recorded)
    result["transforms"] =
        explain_json(*recorded, {plan::SubjectKind::kOperation, id}, nullptr).at("decisions");
  result["implementation"] = nullptr;  // observed by a trace
  return result;
}

std::string or_absent(const ordered_json& value) {
  return value.is_null() ? "absent" : value.get<std::string>();
}

std::string source_text(const ordered_json& op) {
  std::string text =
      fmt::format("operation {}  {}\n", op["operation"].get<OpId>(), op["text"].get<std::string>());
  text += fmt::format("  module          {}\n", or_absent(op["module"]));
  for (const ordered_json& name : op["result_of"])
    text += fmt::format("  result of       {}\n", name.get<std::string>());
  for (const ordered_json& weight : op["weights"]) {
    const ordered_json& identity = weight["identity"];
    text += fmt::format("  weight          {}: ", weight["name"].get<std::string>());
    text += identity.is_null()
                ? "identity absent\n"
                : fmt::format("{} at {} + {}, sha256 {}\n", identity["shard"].get<std::string>(),
                              identity["offset"].get<std::uint64_t>(), identity["bytes"].get<std::uint64_t>(),
                              identity["shard_sha256"].get<std::string>().substr(0, 16));
  }
  if (op["transforms"].is_null()) text += "  transforms      absent\n";
  for (const ordered_json& decision : op["transforms"])
    text += fmt::format("  {:<15} {}: {}\n", decision["kind"].get<std::string>(),
                        decision["verdict"].get<std::string>(), decision["reason"].get<std::string>());
  text += fmt::format("  implementation  {}\n", or_absent(op["implementation"]));
  return text;
}

Result<std::optional<io::BundleRecord>> read_bundle(const Options& options, const Program& program) {
  if (options.bundle.empty()) return std::nullopt;
  DIF_ASSIGN(io::BundleRecord record, io::read_weight_bundle(options.bundle));
  if (record.program != ir::fingerprint(program))
    return invalid_input("{}: sealed for another program than {}", options.bundle, options.file);
  return record;
}

Result<std::optional<plan::PlanRecord>> read_plan(const Options& options, const Program& program) {
  if (options.plan.empty()) return std::nullopt;
  DIF_ASSIGN(plan::PlanRecord record, plan::read_plan(options.plan));
  DIF_TRY(plan::check_plan_of(record, options.plan, program, options.file));
  return record;
}

Status show_source(const Options& options, const Program& program, const cli::ReportOptions& report) {
  const auto n_ops = static_cast<std::int64_t>(program.ops.size());
  if (options.op >= n_ops)
    return invalid_input("--op {}: program {} has operations 0 to {}", options.op, program.name, n_ops - 1);
  DIF_ASSIGN(const std::optional<io::BundleRecord> bundle, read_bundle(options, program));
  DIF_ASSIGN(const std::optional<plan::PlanRecord> recorded, read_plan(options, program));
  const plan::Plan plan = plan::make_plan(program);
  ordered_json document = cli::telemetry_document("program-source");
  document["program"] = {{"name", program.name}, {"fingerprint", ir::fingerprint(program)}};
  const std::string& creator = program.provenance.creator;
  document["creator"] = creator.empty() ? ordered_json() : ordered_json(creator);
  document["operations"] = ordered_json::array();
  std::string text = fmt::format("program {}, made by {}\n", program.name, or_absent(document["creator"]));
  for (std::int64_t id = 0; id < n_ops; ++id) {
    if (options.op >= 0 && id != options.op) continue;
    document["operations"].push_back(source_json(program, static_cast<OpId>(id), plan, bundle, recorded));
    text += source_text(document["operations"].back());
  }
  if (report.wanted()) DIF_TRY(report.write(io::json_text(document)));
  return report.json ? ok() : cli::print_result(text);
}

Status read_sidecar(const std::string& path, Program& program) {
  if (!path.ends_with(kSidecarEnding))
    return invalid_input("--provenance {}: expected a file named *{}", path, kSidecarEnding);
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored))
    return fail(ErrorCode::kNotFound, "{}: there is no such file", path);
  return ir::read_provenance(path.substr(0, path.size() - kSidecarEnding.size()), program);
}

Status inspect(const Options& options, const ResidencyOptions& budget, const cli::ReportOptions& report) {
  if (!options.source &&
      (options.op >= 0 || !options.bundle.empty() || !options.provenance.empty() || !options.plan.empty()))
    return invalid_input("--op, --bundle, --plan and --provenance belong to --source");
  if (options.source && (options.assignments || budget.given()))
    return invalid_input("--assignments and --resident-plan-mib do not go with --source");
  DIF_ASSIGN(Program program, ir::read_program(options.file));
  if (!options.provenance.empty()) DIF_TRY(read_sidecar(options.provenance, program));
  if (options.source) return show_source(options, program, report);
  const plan::Plan plan = plan::make_plan(program);
  std::optional<plan::Residency> residency;
  if (budget.given()) residency = plan::place_weights(program, plan, budget.request());
  if (report.wanted()) DIF_TRY(report.write(listing_document(program, plan, options.assignments, residency)));
  return report.json ? ok() : cli::print_result(listing_text(program, plan, options.assignments, residency));
}

int run(int argc, char** argv) {
  cli::Command command("difinspect",
                       "Print a program with its costs and memory, or where each operation comes from.");
  Options o;
  command.add_option("FILE", o.file, "program, FILE.difir").required();
  command.add_flag("--assignments", o.assignments, "also print where each value lives");
  command.add_flag("--source", o.source,
                   "per operation: module, weight identity; what is not known is absent");
  command.add_option("--provenance", o.provenance,
                     "sidecar of the frontend (default: FILE.difir.provenance.json)");
  command.add_option("--bundle", o.bundle, "FILE.difbind that identifies the weights");
  command.add_option("--plan", o.plan, "FILE.difplan, for what was decided about each operation");
  command.add_option("--op", o.op, "only this operation").expect_whole(0, UINT32_MAX);
  const ResidencyOptions budget(command, {"--resident-plan-mib", "--resident-order"});
  const cli::ReportOptions report(command);
  command.add_examples(
      "  difinspect chain/step.difir\n"
      "  difinspect chain/step.difir --assignments --json\n"
      "  difinspect chain/step.difir --source --bundle chain/step.difbind --op 12\n");
  return cli::run_tool(command, argc, argv, [&] { return inspect(o, budget, report); });
}

}  // namespace

const cli::Tool k_difinspect = {"difinspect", "Programs", "print a program, its costs, memory and sources",
                                run};

}  // namespace dif::tools
