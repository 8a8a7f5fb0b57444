#include "plan/residency.h"

#include <algorithm>
#include <numeric>

#include "base/checked_math.h"

namespace dif::plan {

namespace {

std::vector<PlacedWeight> weights_in_order(const ir::Program& program, const Plan& plan) {
  std::vector<PlacedWeight> weights;
  std::vector<bool> seen(program.values.size());
  const auto read = [&](ir::OpId op) {
    for (const ir::ValueId operand : program.ops[op].operands) {
      const Placement& place = plan.values[operand];
      if (place.storage != Storage::kConstant && place.storage != Storage::kFolded) continue;
      if (seen[place.root]) continue;
      seen[place.root] = true;
      weights.push_back({place.root, program.type(place.root).bytes(), false});
    }
  };
  for (const Step& step : plan.steps) {
    if (step.group != ir::kNoId) {
      for (const ir::OpId op : plan.groups[step.group].ops) read(op);
    } else if (!plan.folded[step.op] && !program.ops[step.op].def->is_view) {
      read(step.op);
    }
  }
  return weights;
}

/// The largest sum of `window` streamed weights that follow each other, around the end of a run.
std::uint64_t ring_bytes(const std::vector<PlacedWeight>& weights, std::uint64_t window) {
  std::vector<std::uint64_t> streamed;
  for (const PlacedWeight& weight : weights)
    if (!weight.resident) streamed.push_back(weight.bytes);
  window = std::min<std::uint64_t>(window, streamed.size());
  std::uint64_t largest = 0;
  for (std::size_t first = 0; first < streamed.size(); ++first) {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < window; ++i)
      sum = saturating_add(sum, streamed[(first + i) % streamed.size()]);
    largest = std::max(largest, sum);
  }
  return largest;
}

}  // namespace

std::string_view order_name(ResidentOrder order) {
  return order == ResidentOrder::kFirst ? "first" : "largest";
}

std::optional<ResidentOrder> order_from_name(std::string_view name) {
  for (const ResidentOrder order : {ResidentOrder::kFirst, ResidentOrder::kLargest})
    if (order_name(order) == name) return order;
  return std::nullopt;
}

Residency place_weights(std::vector<PlacedWeight> weights, std::uint64_t arena_bytes,
                        const ResidencyRequest& request) {
  Residency result;
  result.request = request;
  result.arena_bytes = arena_bytes;
  const std::uint64_t taken = saturating_add(request.fixed_runtime_bytes, arena_bytes);
  result.available_bytes = request.budget_bytes > taken ? request.budget_bytes - taken : 0;
  result.weights = std::move(weights);
  const std::uint64_t window = std::uint64_t{request.prefetch_distance} + 1;

  std::vector<std::size_t> order(result.weights.size());
  std::iota(order.begin(), order.end(), 0U);
  if (request.order == ResidentOrder::kLargest)
    std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t i) { return result.weights[i].bytes; });
  for (PlacedWeight& weight : result.weights) weight.resident = false;
  for (const std::size_t i : order) {
    PlacedWeight& weight = result.weights[i];
    weight.resident = true;
    const std::uint64_t resident = saturating_add(result.resident_bytes, weight.bytes);
    weight.resident = saturating_add(resident, ring_bytes(result.weights, window)) <= result.available_bytes;
    if (weight.resident) result.resident_bytes = resident;
  }
  for (const PlacedWeight& weight : result.weights)
    if (!weight.resident) result.streamed_bytes = saturating_add(result.streamed_bytes, weight.bytes);
  result.ring_bytes = ring_bytes(result.weights, window);
  result.fits = request.budget_bytes >= taken &&
                saturating_add(result.resident_bytes, result.ring_bytes) <= result.available_bytes;
  return result;
}

Residency place_weights(const ir::Program& program, const Plan& plan, const ResidencyRequest& request) {
  return place_weights(weights_in_order(program, plan), plan.arena_bytes, request);
}

std::uint64_t least_budget(const ir::Program& program, const Plan& plan, const ResidencyRequest& request) {
  const std::uint64_t ring =
      ring_bytes(weights_in_order(program, plan), std::uint64_t{request.prefetch_distance} + 1);
  return saturating_add(saturating_add(request.fixed_runtime_bytes, plan.arena_bytes), ring);
}

}  // namespace dif::plan
