#include <nlohmann/json.hpp>

#include "runtime/executor.h"

namespace dif::runtime {

using plan::Storage;

void Executor::make_report(const ExecutorOptions& options, double seconds) {
  report_.arena_bytes = plan_.arena_bytes;
  nlohmann::json operations = nlohmann::json::array(), groups = nlohmann::json::array(),
                 ends = nlohmann::json::array();
  const auto describe = [&](const Step& step, ir::OpId op) -> nlohmann::json& {
    operations.push_back({{"operation", op}, {"name", views_[op].def().name}, {"kernel", step.kernel_name}});
    return operations.back();
  };
  const auto with_bytes = [](nlohmann::json& entry, const Step& step) {
    if (step.workspace_bytes != 0) entry["workspace_bytes"] = step.workspace_bytes;
    if (step.prepacked_bytes != 0) entry["prepacked_bytes"] = step.prepacked_bytes;
  };
  const auto with_reasons = [](nlohmann::json& entry, const std::vector<std::string>& declined) {
    if (!declined.empty()) entry["declined"] = declined;
  };
  std::ranges::sort(folded_steps_, {}, &Step::op);
  for (const Step& step : folded_steps_) {
    if (step.on_host) ++report_.host_operations;
    describe(step, step.op)["folded"] = true;
    with_reasons(operations.back(), step.declined);
  }
  for (const Step& step : steps_) {
    report_.workspace_bytes = std::max(report_.workspace_bytes, step.workspace_bytes);
    report_.prepacked_bytes += step.prepacked_bytes;
    if (step.on_host) ++report_.host_operations;
    const auto group = std::ranges::find(plan_.groups, step.op,
                                         [](const plan::Group& candidate) { return candidate.ops.front(); });
    if (group == plan_.groups.end()) {
      with_reasons(describe(step, step.op), step.declined);
      if (!step.choice.empty()) operations.back()["choice"] = step.choice;
      with_bytes(operations.back(), step);
      continue;
    }
    for (const ir::OpId op : group->ops) describe(step, op)["group"] = groups.size();
    groups.push_back({{"operations", group->ops},
                      {"kernel", step.kernel_name},
                      {"rows", group->rows},
                      {"reads", group->inputs},
                      {"writes", group->outputs}});
    if (!step.choice.empty()) groups.back()["choice"] = step.choice;
    with_reasons(groups.back(), step.declined);
    with_bytes(groups.back(), step);
  }
  for (const DeclinedGroup& declined : declined_groups_)
    groups.push_back({{"operations", declined.group.ops}, {"declined", declined.declined}});
  for (const plan::Refusal& refusal : refusals_)
    ends.push_back({{"operation", refusal.op}, {"producer", refusal.producer}, {"reason", refusal.reason}});
  nlohmann::json resident = nlohmann::json::array(), streamed = nlohmann::json::array();
  for (ir::ValueId id = 0; id < program_.values.size(); ++id) {
    const Storage storage = plan_.values[id].storage;
    if (plan_.values[id].root != id || (storage != Storage::kConstant && storage != Storage::kFolded))
      continue;
    const bool is_resident = late_ ? placed_[id] == Placed::kResident : static_cast<bool>(fixed_places_[id]);
    if (is_resident) report_.resident_bytes += program_.type(id).bytes();
    if (is_resident) resident.push_back(id);
    if (late_ && placed_[id] == Placed::kStreamed) streamed.push_back(id);
  }
  for (const plan::RingStage& stage : schedule_.ring.stages)
    for (const std::uint32_t weight : stage.weights)
      report_.streamed_bytes += schedule_.use.weights[weight].bytes;
  report_.ring_bytes = schedule_.ring.bytes;
  report_.pinned_host_bytes =
      arena_.pinned_bytes() + pinned_weights_.bytes() + (stream_ == nullptr ? 0 : stream_->pinned_bytes());
  // "planner": whose make_plan laid out the memory, so that a host with the same one knows every place.
  nlohmann::json details = {{"executes", options.executes},
                            {"planner", plan::kPlannerName},
                            {"resident", std::move(resident)},
                            {"operations", std::move(operations)}};
  if (!options.plan_only)
    details["prepare"] = {{"seconds", seconds},
                          {"planning_seconds", seconds - times_.kernels - times_.weights},
                          {"weight_seconds", times_.weights},
                          {"kernel_seconds", times_.by_kernel}};
  if (!plan_.in_place.empty()) details["in_place"] = plan_.in_place;
  if (!groups.empty()) details["groups"] = std::move(groups);
  if (!ends.empty()) details["group_ends"] = std::move(ends);
  if (!streamed.empty()) details["streamed"] = std::move(streamed);
  if (residency_) {
    const plan::ResidencyRequest& request = residency_->request;
    details["residency"] = {{"budget_bytes", request.budget_bytes},
                            {"fixed_runtime_bytes", request.fixed_runtime_bytes},
                            {"order", plan::order_name(request.order)},
                            {"prefetch_distance", request.prefetch_distance},
                            {"available_bytes", residency_->available_bytes},
                            {"ring_bytes", residency_->ring_bytes}};
  }
  report_.details = details.dump();
  if (loading_.bytes != 0) add_loading(report_.details);
}

}  // namespace dif::runtime
