#include "pipelines/plan_report.h"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "ir/printer.h"
#include "plan/plan_text.h"

namespace dif {

namespace {

using nlohmann::ordered_json;
using plan::Decision;
using plan::PlanRecord;
using plan::RecordedStep;
using plan::RecordedValue;
using plan::SubjectKind;

std::string bytes_text(std::uint64_t bytes) {
  return ir::amount_text(static_cast<double>(bytes), "B");
}

std::string subject_name(SubjectKind kind, std::uint32_t id) {
  switch (kind) {
    case SubjectKind::kOperation:
      return fmt::format("operation {}", id);
    case SubjectKind::kValue:
      return fmt::format("value {}", id);
    case SubjectKind::kPlan:
      break;
  }
  return "the plan";
}

std::size_t n_operations(const PlanRecord& plan) {
  std::size_t count = 0;
  for (const RecordedStep& step : plan.steps) count += step.ops.size();
  return count;
}

std::string step_text(const RecordedStep& step) {
  return fmt::format("operation{} {}, {}", step.ops.size() == 1 ? "" : "s", fmt::join(step.ops, " "),
                     step.kernel.empty() ? "nothing runs" : "kernel " + step.kernel);
}

std::string value_text(const RecordedValue& value) {
  if (value.storage != plan::Storage::kArena) return std::string(plan::storage_name(value.storage));
  return fmt::format("arena {} + {}, steps {} to {}", value.offset, value.bytes, value.first, value.last);
}

ordered_json step_json(const RecordedStep& step) {
  ordered_json result = {{"operations", step.ops}, {"kernel", nullptr}};
  if (!step.kernel.empty()) result["kernel"] = step.kernel;
  if (step.prepacked_bytes != 0) result["prepacked_bytes"] = step.prepacked_bytes;
  return result;
}

ordered_json value_json(const PlanRecord& plan, std::uint32_t id) {
  const RecordedValue& value = plan.values[id];
  ordered_json result = {{"value", id},
                         {"storage", plan::storage_name(value.storage)},
                         {"root", value.root},
                         {"bytes", value.bytes}};
  if (value.storage == plan::Storage::kArena) {
    result["offset"] = value.offset;
    result["first_step"] = value.first;
    result["last_step"] = value.last;
  }
  return result;
}

ordered_json decision_json(const Decision& decision) {
  ordered_json result = {{"kind", decision_kind_name(decision.kind)}};
  if (decision.subject == SubjectKind::kOperation) result["operation"] = decision.id;
  if (decision.subject == SubjectKind::kValue) result["value"] = decision.id;
  result["verdict"] = decision.verdict;
  result["reason"] = decision.reason;
  return result;
}

/// The constant that a value was folded from, through casts, slices and the like; the value itself when it is
/// one.
const ir::ValueInfo* source_of(const ir::Program& program, std::uint32_t value) {
  const ir::ValueInfo* info = &program.values[value];
  while (info->kind == ir::ValueKind::kResult) {
    const ir::Op& op = program.ops[info->producer];
    if (op.operands.empty()) return nullptr;
    info = &program.values[op.operands.front()];
  }
  return info;
}

/// "%46, from x_embedder.weight", when a program says so.
std::string weight_name(std::uint32_t value, const ir::Program* program) {
  const ir::ValueInfo* source = program == nullptr ? nullptr : source_of(*program, value);
  if (source == nullptr) return fmt::format("%{}", value);
  const bool folded = source != &program->values[value];
  return fmt::format("%{}{} {}", value, folded ? ", from" : "", source->name);
}

}  // namespace

std::string plan_text(const PlanRecord& plan) {
  const auto groups = std::ranges::count_if(plan.steps, [](const auto& step) { return step.ops.size() > 1; });
  std::string text = fmt::format("plan of {} on backend {}\n", plan.program_name, plan.backend);
  text += fmt::format("  program   {}\n  identity  {}\n", plan.program, plan_identity(plan));
  text += fmt::format("  memory    arena {}, workspace {}, resident {}, streamed {}, prepacked {}\n",
                      bytes_text(plan.arena_bytes), bytes_text(plan.workspace_bytes),
                      bytes_text(plan.resident_bytes), bytes_text(plan.streamed_bytes),
                      bytes_text(plan.prepacked_bytes));
  text += fmt::format("  steps     {}, of {} operations; {} groups\n", plan.steps.size(), n_operations(plan),
                      groups);
  std::array<std::size_t, plan::kDecisionKinds> counts{};
  for (const Decision& decision : plan.decisions) ++counts[static_cast<std::size_t>(decision.kind)];
  std::vector<std::string> kinds;
  for (std::size_t kind = 0; kind < counts.size(); ++kind)
    if (counts[kind] != 0)
      kinds.push_back(
          fmt::format("{} {}", counts[kind], decision_kind_name(static_cast<plan::DecisionKind>(kind))));
  text += fmt::format("  decisions {}\n", fmt::join(kinds, ", "));
  for (const Decision& decision : plan.decisions)
    if (decision.subject == SubjectKind::kPlan)
      text += fmt::format("    {}: {}: {}\n", decision_kind_name(decision.kind), decision.verdict,
                          decision.reason);
  text += "\nsteps\n";
  for (std::size_t i = 0; i < plan.steps.size(); ++i)
    if (!plan.steps[i].kernel.empty()) text += fmt::format("  {:>5}  {}\n", i, step_text(plan.steps[i]));
  text += "\nvalues in the arena\n";
  for (std::uint32_t id = 0; id < plan.values.size(); ++id) {
    const RecordedValue& value = plan.values[id];
    if (value.storage == plan::Storage::kArena && value.root == id)
      text += fmt::format("  %{}  {}\n", id, value_text(value));
  }
  return text;
}

ordered_json plan_json(const PlanRecord& plan) {
  ordered_json result = {{"program", {{"name", plan.program_name}, {"fingerprint", plan.program}}},
                         {"backend", plan.backend},
                         {"identity", plan_identity(plan)},
                         {"memory",
                          {{"arena_bytes", plan.arena_bytes},
                           {"workspace_bytes", plan.workspace_bytes},
                           {"resident_bytes", plan.resident_bytes},
                           {"streamed_bytes", plan.streamed_bytes},
                           {"prepacked_bytes", plan.prepacked_bytes}}}};
  for (const char* list : {"steps", "values", "decisions"}) result[list] = ordered_json::array();
  for (const RecordedStep& step : plan.steps) result["steps"].push_back(step_json(step));
  for (std::uint32_t id = 0; id < plan.values.size(); ++id) result["values"].push_back(value_json(plan, id));
  if (plan.residency) result["residency"] = residency_json(*plan.residency, nullptr);
  for (const Decision& decision : plan.decisions) result["decisions"].push_back(decision_json(decision));
  return result;
}

// --- differences ------------------------------------------------------------------------------------------

namespace {

class Difference {
 public:
  std::vector<PlanDifference> run(const PlanRecord& a, const PlanRecord& b) {
    compare("program", a.program, b.program);
    compare("backend", a.backend, b.backend);
    compare("arena bytes", a.arena_bytes, b.arena_bytes);
    compare("workspace bytes", a.workspace_bytes, b.workspace_bytes);
    compare("resident bytes", a.resident_bytes, b.resident_bytes);
    compare("streamed bytes", a.streamed_bytes, b.streamed_bytes);
    compare("prepacked bytes", a.prepacked_bytes, b.prepacked_bytes);
    const auto steps_a = steps(a), steps_b = steps(b);
    compare_maps("step of ", steps_a, steps_b);
    compare_maps("", values(a), values(b));
    compare_maps("decision ", decisions(a), decisions(b));
    return std::move(found_);
  }

 private:
  using Key = std::pair<std::uint32_t, std::string>;  // sorts by number, then by text
  using Map = std::map<Key, std::string>;

  void compare(const std::string& what, const std::string& a, const std::string& b) {
    if (a != b) found_.push_back({what, a, b});
  }
  void compare(const std::string& what, std::uint64_t a, std::uint64_t b) {
    compare(what, std::to_string(a), std::to_string(b));
  }
  void compare_maps(const std::string& what, const Map& a, const Map& b) {
    Map both = a;
    both.insert(b.begin(), b.end());
    for (const auto& [key, unused] : both) {
      const auto in_a = a.find(key), in_b = b.find(key);
      compare(what + key.second, in_a == a.end() ? "" : in_a->second, in_b == b.end() ? "" : in_b->second);
    }
  }

  static Map steps(const PlanRecord& plan) {
    Map map;
    for (const RecordedStep& step : plan.steps)
      for (const ir::OpId op : step.ops)
        map[{op, subject_name(SubjectKind::kOperation, op)}] = step_text(step);
    return map;
  }
  static Map values(const PlanRecord& plan) {
    Map map;
    for (std::uint32_t id = 0; id < plan.values.size(); ++id)
      map[{id, subject_name(SubjectKind::kValue, id)}] = value_text(plan.values[id]);
    return map;
  }
  static Map decisions(const PlanRecord& plan) {
    Map map;
    for (const Decision& decision : plan.decisions) {
      std::string& text = map[{decision.id, fmt::format("{} of {}", decision_kind_name(decision.kind),
                                                        subject_name(decision.subject, decision.id))}];
      text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", decision.verdict, decision.reason);
    }
    return map;
  }

  std::vector<PlanDifference> found_;
};

}  // namespace

std::vector<PlanDifference> diff_plans(const PlanRecord& a, const PlanRecord& b) {
  return Difference().run(a, b);
}

std::string diff_text(const std::vector<PlanDifference>& differences) {
  if (differences.empty()) return "the plans are the same\n";
  std::string text;
  for (const PlanDifference& difference : differences) {
    text += difference.what + "\n";
    if (!difference.a.empty()) text += fmt::format("  - {}\n", difference.a);
    if (!difference.b.empty()) text += fmt::format("  + {}\n", difference.b);
  }
  return text;
}

ordered_json diff_json(const std::vector<PlanDifference>& differences) {
  ordered_json result = ordered_json::array();
  for (const PlanDifference& difference : differences) {
    result.push_back({{"what", difference.what}, {"a", nullptr}, {"b", nullptr}});
    if (!difference.a.empty()) result.back()["a"] = difference.a;
    if (!difference.b.empty()) result.back()["b"] = difference.b;
  }
  return result;
}

// --- residency --------------------------------------------------------------------------------------------

std::string residency_text(const plan::Residency& residency, const ir::Program* program) {
  const plan::ResidencyRequest& request = residency.request;
  std::string text = fmt::format("budget         {:>14}\nfixed runtime  {:>14}\narena          {:>14}\n",
                                 request.budget_bytes, request.fixed_runtime_bytes, residency.arena_bytes);
  text += fmt::format("available      {:>14}  for weights\n", residency.available_bytes);
  text += fmt::format("resident       {:>14}  admitted in order {}\n", residency.resident_bytes,
                      order_name(request.order));
  text += fmt::format("ring           {:>14}  for {} streamed weights at a time\n", residency.ring_bytes,
                      request.prefetch_distance + 1);
  text += fmt::format("streamed       {:>14}  fetched in every run\n", residency.streamed_bytes);
  text += residency.fits ? "fits\n" : "does not fit\n";
  text += "\nweights\n";
  for (const plan::PlacedWeight& weight : residency.weights)
    text += fmt::format("  {:<8} {:>14}  {}\n", weight.resident ? "resident" : "streamed", weight.bytes,
                        weight_name(weight.value, program));
  return text;
}

ordered_json residency_json(const plan::Residency& residency, const ir::Program* program) {
  const plan::ResidencyRequest& request = residency.request;
  ordered_json result = {{"budget_bytes", request.budget_bytes},
                         {"fixed_runtime_bytes", request.fixed_runtime_bytes},
                         {"order", order_name(request.order)},
                         {"prefetch_distance", request.prefetch_distance},
                         {"arena_bytes", residency.arena_bytes},
                         {"available_bytes", residency.available_bytes},
                         {"resident_bytes", residency.resident_bytes},
                         {"streamed_bytes", residency.streamed_bytes},
                         {"ring_bytes", residency.ring_bytes},
                         {"fits", residency.fits},
                         {"weights", ordered_json::array()}};
  for (const plan::PlacedWeight& weight : residency.weights) {
    ordered_json entry = {{"value", weight.value}, {"bytes", weight.bytes}, {"resident", weight.resident}};
    if (const ir::ValueInfo* source = program == nullptr ? nullptr : source_of(*program, weight.value))
      entry["source"] = source->name;
    result["weights"].push_back(std::move(entry));
  }
  return result;
}

// --- one operation or value -------------------------------------------------------------------------------

namespace {

std::vector<const Decision*> decisions_about(const PlanRecord& plan, const PlanSubject& subject) {
  std::vector<const Decision*> found;
  for (const Decision& decision : plan.decisions)
    if (decision.subject == subject.kind && decision.id == subject.id) found.push_back(&decision);
  return found;
}

std::size_t step_of(const PlanRecord& plan, ir::OpId op) {
  const auto found = std::ranges::find_if(
      plan.steps, [&](const RecordedStep& step) { return std::ranges::count(step.ops, op) != 0; });
  return static_cast<std::size_t>(found - plan.steps.begin());
}

std::string title(const PlanSubject& subject, const ir::Program* program) {
  const std::string name = subject_name(subject.kind, subject.id);
  if (program == nullptr) return name;
  if (subject.kind == SubjectKind::kOperation)
    return fmt::format("{}: {}", name, ir::op_text(*program, subject.id));
  const ir::ValueInfo& value = program->values[subject.id];
  return fmt::format("{}: {}{}{}", name, value.name, value.name.empty() ? "" : " ", value.type);
}

}  // namespace

Status check_subject(const PlanRecord& plan, const PlanSubject& subject) {
  const bool operation = subject.kind == SubjectKind::kOperation;
  const std::size_t count = operation ? n_operations(plan) : plan.values.size();
  if (subject.id < count) return ok();
  return invalid_input("{}: the plan of {} has {} {}", subject_name(subject.kind, subject.id),
                       plan.program_name, count, operation ? "operations" : "values");
}

std::string explain_text(const PlanRecord& plan, const PlanSubject& subject, const ir::Program* program) {
  std::string text = title(subject, program) + "\n";
  if (subject.kind == SubjectKind::kOperation) {
    const std::size_t step = step_of(plan, subject.id);
    text += fmt::format("  step {} of {}: {}\n", step, plan.steps.size(), step_text(plan.steps[step]));
  } else {
    text +=
        fmt::format("  {} bytes, {}\n", plan.values[subject.id].bytes, value_text(plan.values[subject.id]));
  }
  const auto decisions = decisions_about(plan, subject);
  if (decisions.empty()) text += "  no decision about it is recorded\n";
  for (const Decision* decision : decisions)
    text += fmt::format("  {:<10} {}: {}\n", decision_kind_name(decision->kind), decision->verdict,
                        decision->reason);
  return text;
}

ordered_json explain_json(const PlanRecord& plan, const PlanSubject& subject, const ir::Program* program) {
  const bool operation = subject.kind == SubjectKind::kOperation;
  ordered_json result = {{operation ? "operation" : "value", subject.id}};
  if (program != nullptr) result["text"] = title(subject, program);
  if (operation) {
    const std::size_t step = step_of(plan, subject.id);
    result["step"] = step;
    result["runs"] = step_json(plan.steps[step]);
  } else {
    result["place"] = value_json(plan, subject.id);
  }
  result["decisions"] = ordered_json::array();
  for (const Decision* decision : decisions_about(plan, subject))
    result["decisions"].push_back(decision_json(*decision));
  return result;
}

}  // namespace dif
