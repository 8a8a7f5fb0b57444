#include "pipelines/plan_export.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "io/json.h"
#include "plan/plan_file.h"

namespace dif {

namespace {

using ir::OpId;
using ir::Program;
using ir::ValueId;
using nlohmann::json;
using plan::DecisionKind;
using plan::SubjectKind;

constexpr std::uint64_t kMaxDetailsBytes = std::uint64_t{64} << 20;

/// A plug-in's document is not ours: a member that does not look as expected is not there.
const json& member(const json& object, const char* name, json::value_t type) {
  static const json kNothing;
  if (!object.is_object() || !object.contains(name)) return kNothing;
  const json& found = object.at(name);
  const bool number = type == json::value_t::number_unsigned && found.is_number_unsigned();
  return number || found.type() == type ? found : kNothing;
}

std::string text_of(const json& object, const char* name) {
  const json& found = member(object, name, json::value_t::string);
  return found.is_string() ? found.get<std::string>() : "";
}

std::uint64_t number_of(const json& object, const char* name, std::uint64_t otherwise = 0) {
  const json& found = member(object, name, json::value_t::number_unsigned);
  return found.is_number_unsigned() ? found.get<std::uint64_t>() : otherwise;
}

/// The numbers below `end` of a list.
std::vector<std::uint32_t> ids_of(const json& object, const char* name, std::size_t end) {
  std::vector<std::uint32_t> ids;
  for (const json& id : member(object, name, json::value_t::array))
    if (id.is_number_unsigned() && id.get<std::uint64_t>() < end) ids.push_back(id.get<std::uint32_t>());
  return ids;
}

class Recorder {
 public:
  Recorder(const Program& program, const runtime::PreparedReport& report, const json& details)
      : program_(program), report_(report), details_(details) {}

  Result<plan::PlanRecord> run(const std::string& backend) {
    if (text_of(details_, "planner") != plan::kPlannerName)
      return fail(ErrorCode::kUnavailable, "backend {} does not say how it lays out memory: it has no plan",
                  backend);
    DIF_TRY(lay_out(backend));
    for (const json& operation : member(details_, "operations", json::value_t::array))
      record_kernel(operation);
    for (const json& group : member(details_, "groups", json::value_t::array)) record_group(group);
    record_placement();
    decide(DecisionKind::kTarget, SubjectKind::kPlan, 0, "backend " + backend,
           "kernels and places are this backend's, by the planner " + std::string(plan::kPlannerName));
    std::ranges::stable_sort(record_.decisions, {}, [](const plan::Decision& decision) {
      return std::pair(decision.subject, decision.id);
    });
    return std::move(record_);
  }

 private:
  void decide(DecisionKind kind, SubjectKind subject, std::uint32_t id, std::string verdict,
              std::string reason) {
    record_.decisions.push_back({kind, subject, id, std::move(verdict), std::move(reason)});
  }

  Status lay_out(const std::string& backend) {
    std::vector<plan::Group> groups;
    for (const json& group : member(details_, "groups", json::value_t::array))
      if (!text_of(group, "kernel").empty())
        groups.push_back({ids_of(group, "operations", program_.ops.size()),
                          static_cast<std::int64_t>(number_of(group, "rows")),
                          ids_of(group, "reads", program_.values.size()),
                          ids_of(group, "writes", program_.values.size())});
    std::vector<plan::Refusal> refusals;
    for (const json& end : member(details_, "group_ends", json::value_t::array)) {
      const std::uint64_t op = number_of(end, "operation", ir::kNoId);
      const std::uint64_t producer = number_of(end, "producer", ir::kNoId);
      if (std::max(op, producer) < program_.ops.size())
        refusals.push_back({static_cast<OpId>(op), static_cast<OpId>(producer), text_of(end, "reason")});
    }
    std::vector<OpId> in_place = ids_of(details_, "in_place", program_.ops.size());
    if (Status status = plan::check_plan(program_, groups, in_place); !status)
      return fail(ErrorCode::kUnavailable, "backend {} reports {}: the plug-in is broken", backend,
                  status.error().message);
    const plan::Plan plan = plan::make_plan(program_, std::move(groups), std::move(in_place));
    if (plan.arena_bytes != report_.arena_bytes)
      return fail(ErrorCode::kUnavailable,
                  "backend {} reports an arena of {} bytes, its plan has {}: the plug-in is broken", backend,
                  report_.arena_bytes, plan.arena_bytes);
    record_ = plan::record_layout(program_, plan, refusals, backend);
    record_.workspace_bytes = report_.workspace_bytes;
    record_.resident_bytes = report_.resident_bytes;
    record_.streamed_bytes = report_.streamed_bytes;
    record_.prepacked_bytes = report_.prepacked_bytes;
    for (std::size_t i = 0; i < record_.steps.size(); ++i) step_of_.emplace(record_.steps[i].ops.front(), i);
    return ok();
  }

  void record_kernel(const json& operation) {
    const std::uint64_t op = number_of(operation, "operation", ir::kNoId);
    if (op >= program_.ops.size()) return;
    const auto id = static_cast<OpId>(op);
    const bool folded = operation.contains("folded");
    const std::vector<std::string> declined = record_candidates(operation, id, "");
    const std::string kernel = text_of(operation, "kernel");
    decide(DecisionKind::kKernel, SubjectKind::kOperation, id, kernel,
           operation.contains("group") ? "the kernel of its group"
           : declined.empty()          ? "first in the backend's list for this operation"
                                       : "first in the backend's list that did not decline");
    if (!folded && !operation.contains("group")) set_step(id, kernel, operation);
  }

  void record_group(const json& group) {
    const std::vector<OpId> ops = ids_of(group, "operations", program_.ops.size());
    if (ops.empty()) return;
    record_candidates(group, ops.front(), fmt::format(" the group of operations {}", fmt::join(ops, ", ")));
    if (const std::string kernel = text_of(group, "kernel"); !kernel.empty())
      set_step(ops.front(), kernel, group);
  }

  /// Reasons are "KERNEL: REASON".
  std::vector<std::string> record_candidates(const json& entry, OpId op, const std::string& what) {
    std::vector<std::string> declined;
    for (const json& reason : member(entry, "declined", json::value_t::array)) {
      if (!reason.is_string()) continue;
      declined.push_back(reason.get<std::string>());
      const std::size_t colon = declined.back().find(": ");
      const bool split = colon != std::string::npos;
      decide(DecisionKind::kCandidate, SubjectKind::kOperation, op,
             (split ? declined.back().substr(0, colon) : "a kernel") + " declined" + what,
             split ? declined.back().substr(colon + 2) : declined.back());
    }
    return declined;
  }

  void set_step(OpId op, const std::string& kernel, const json& entry) {
    const auto found = step_of_.find(op);
    if (found == step_of_.end()) return;
    plan::RecordedStep& step = record_.steps[found->second];
    step.kernel = kernel;
    step.prepacked_bytes = number_of(entry, "prepacked_bytes");
    if (step.prepacked_bytes == 0) return;
    decide(DecisionKind::kPrepacked, SubjectKind::kOperation, op,
           fmt::format("{} bytes", step.prepacked_bytes),
           kernel + " keeps its constants in a layout of its own");
  }

  /// The arithmetic of a backend that streams, which is planned anew: per value, whether that decides about
  /// it.
  std::vector<bool> record_residency() {
    std::vector<bool> placed(program_.values.size());
    const json& asked = member(details_, "residency", json::value_t::object);
    const auto order = plan::order_from_name(text_of(asked, "order"));
    if (!asked.is_object() || !order) return placed;
    plan::record_residency(record_, program_,
                           {number_of(asked, "budget_bytes"), number_of(asked, "fixed_runtime_bytes"), *order,
                            static_cast<std::uint32_t>(number_of(asked, "prefetch_distance"))});
    for (const plan::PlacedWeight& weight : record_.residency->weights) placed[weight.value] = true;
    return placed;
  }

  void record_placement() {
    std::vector<bool> resident(program_.values.size());
    for (const ValueId id : ids_of(details_, "resident", program_.values.size())) resident[id] = true;
    const std::vector<bool> placed = record_residency();
    for (ValueId id = 0; id < record_.values.size(); ++id) {
      if (placed[id]) continue;
      const plan::RecordedValue& value = record_.values[id];
      const bool folded = value.storage == plan::Storage::kFolded;
      if (value.root != id || (value.storage != plan::Storage::kConstant && !folded)) continue;
      if (resident[id])
        decide(DecisionKind::kPlacement, SubjectKind::kValue, id, "resident",
               folded ? "steps read it; computed at prepare" : "steps read it where it is");
      else
        decide(DecisionKind::kPlacement, SubjectKind::kValue, id, "released",
               "no step reads it: what needed it was computed or repacked at prepare");
    }
  }

  const Program& program_;
  const runtime::PreparedReport& report_;
  const json& details_;
  plan::PlanRecord record_;
  std::map<OpId, std::size_t> step_of_;  // by the first operation of a step
};

}  // namespace

Result<plan::PlanRecord> record_plan(const Program& program, const runtime::PreparedReport& report,
                                     const std::string& backend) {
  DIF_ASSIGN(const io::JsonDocument details,
             io::JsonDocument::parse(report.details, "the report of backend " + backend,
                                     {.max_bytes = kMaxDetailsBytes, .max_depth = 64}));
  return Recorder(program, report, details.value()).run(backend);
}

Result<plan::PlanRecord> plan_program(const std::shared_ptr<runtime::Context>& context,
                                      const Program& program) {
  DIF_ASSIGN(const runtime::PreparedReport report, runtime::PreparedProgram::plan(context, program));
  return record_plan(program, report, context->library().name());
}

namespace {

/// The parts of a program are NAME.NUMBER; an earlier export may have had more of them.
bool is_part(const std::string& stem, const std::string& program) {
  return stem.size() > program.size() + 1 && stem.starts_with(program + ".") &&
         stem.find_first_not_of("0123456789", program.size() + 1) == std::string::npos;
}

Status remove_parts(const std::vector<plan::PlanRecord>& plans, const std::filesystem::path& folder) {
  std::error_code error;
  std::vector<std::filesystem::path> stale;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error))
    if (entry.path().extension() == ".difplan" &&
        std::ranges::any_of(plans, [stem = entry.path().stem().string()](const plan::PlanRecord& plan) {
          return is_part(stem, plan.program_name);
        }))
      stale.push_back(entry.path());
  for (const std::filesystem::path& path : stale)
    if (std::filesystem::remove(path, error); error)
      return fail(ErrorCode::kIo, "{}: this plan of an earlier run cannot be removed: {}", path.string(),
                  error.message());
  return ok();
}

}  // namespace

Status export_plans(const std::vector<plan::PlanRecord>& plans, const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    return fail(ErrorCode::kIo, "{}: the folder cannot be created: {}", folder.string(), error.message());
  DIF_TRY(remove_parts(plans, folder));
  for (const plan::PlanRecord& plan : plans)
    DIF_TRY(plan::write_plan(folder / (plan.program_name + ".difplan"), plan));
  return ok();
}

}  // namespace dif
