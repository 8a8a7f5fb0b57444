#include "plan/residency.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/checked_math.h"

namespace dif::plan {

namespace {

constexpr std::uint64_t kSmallBytes = 1 << 20;

WeightUse use_of(const ir::Program& program, const Plan& plan) {
  WeightUse use;
  std::vector<std::uint32_t> index(program.values.size(), ir::kNoId);
  std::vector<std::uint32_t> reads;
  const auto read = [&](ir::OpId op) {
    for (const ir::ValueId operand : program.ops[op].operands) {
      const Placement& place = plan.values[operand];
      if (place.storage != Storage::kConstant && place.storage != Storage::kFolded) continue;
      if (index[place.root] == ir::kNoId) {
        index[place.root] = static_cast<std::uint32_t>(use.weights.size());
        use.weights.push_back({place.root, program.type(place.root).bytes(), false});
      }
      if (std::ranges::find(reads, index[place.root]) == reads.end()) reads.push_back(index[place.root]);
    }
  };
  for (const Step& step : plan.steps) {
    reads.clear();
    if (step.group != ir::kNoId) {
      for (const ir::OpId op : plan.groups[step.group].ops) read(op);
    } else if (!plan.folded[step.op] && !program.ops[step.op].def->is_view) {
      read(step.op);
    }
    if (!reads.empty()) use.steps.push_back(reads);
  }
  return use;
}

std::vector<RingStage> stages_of(const WeightUse& use, std::uint64_t alignment) {
  std::vector<RingStage> stages;
  for (std::uint32_t step = 0; step < use.steps.size(); ++step) {
    RingStage stage;
    stage.step = step;
    for (const std::uint32_t weight : use.steps[step]) {
      if (use.weights[weight].resident) continue;
      stage.weights.push_back(weight);
      stage.bytes = saturating_add(stage.bytes, use.weights[weight].bytes);
      if (alignment > 1) stage.bytes = align_up(stage.bytes, alignment);
    }
    if (!stage.weights.empty()) stages.push_back(std::move(stage));
  }
  return stages;
}

/// The largest sum of `window` stages that follow each other, around the end of a run.
std::uint64_t largest_window(const std::vector<RingStage>& stages, std::uint64_t window) {
  window = std::min<std::uint64_t>(window, stages.size());
  std::uint64_t largest = 0;
  for (std::size_t first = 0; first < stages.size(); ++first) {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < window; ++i)
      sum = saturating_add(sum, stages[(first + i) % stages.size()].bytes);
    largest = std::max(largest, sum);
  }
  return largest;
}

std::uint64_t ring_bytes(const WeightUse& use, const ResidencyRequest& request) {
  return largest_window(stages_of(use, 1), std::uint64_t{request.prefetch_distance} + 1);
}

std::uint32_t reversed_bits(std::uint32_t number) {
  std::uint32_t reversed = 0;
  for (int bit = 0; bit < 32; ++bit) reversed |= (number >> bit & 1U) << (31 - bit);
  return reversed;
}

/// In which order weights ask to be admitted.
std::vector<std::size_t> admission(const std::vector<PlacedWeight>& weights, ResidentOrder order) {
  std::vector<std::size_t> result(weights.size());
  std::iota(result.begin(), result.end(), 0U);
  const auto bytes = [&](std::size_t i) { return weights[i].bytes; };
  if (order == ResidentOrder::kLargest) std::ranges::stable_sort(result, std::greater<>(), bytes);
  if (order != ResidentOrder::kSpread) return result;
  const auto large = std::stable_partition(result.begin(), result.end(),
                                           [&](std::size_t i) { return bytes(i) < kSmallBytes; });
  // Positions by their bits from the back: any number of the first ones lies evenly.
  std::vector<std::size_t> in_order(large, result.end());
  std::vector<std::uint32_t> positions(in_order.size());
  std::iota(positions.begin(), positions.end(), 0U);
  std::ranges::sort(positions, {}, reversed_bits);
  std::ranges::transform(positions, large, [&](std::uint32_t i) { return in_order[i]; });
  return result;
}

bool overlap(const RingStage& a, const RingStage& b) {
  return a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

/// The lowest offset at which a stage lies apart from all of `others`; nothing when that is beyond the ring.
std::optional<std::uint64_t> gap(std::uint64_t bytes, std::vector<const RingStage*> others,
                                 std::uint64_t ring) {
  std::ranges::sort(others, {}, [](const RingStage* stage) { return stage->offset; });
  std::uint64_t offset = 0;
  for (const RingStage* other : others) {
    if (offset + bytes <= other->offset) break;
    offset = std::max(offset, other->offset + other->bytes);
  }
  if (offset + bytes > ring) return std::nullopt;
  return offset;
}

}  // namespace

std::string_view order_name(ResidentOrder order) {
  constexpr std::string_view kNames[] = {"first", "largest", "spread"};
  return kNames[static_cast<std::size_t>(order)];
}

std::optional<ResidentOrder> order_from_name(std::string_view name) {
  for (const ResidentOrder order : {ResidentOrder::kFirst, ResidentOrder::kLargest, ResidentOrder::kSpread})
    if (order_name(order) == name) return order;
  return std::nullopt;
}

Residency place_weights(WeightUse use, std::uint64_t arena_bytes, const ResidencyRequest& request) {
  Residency result;
  result.request = request;
  result.arena_bytes = arena_bytes;
  const std::uint64_t taken = saturating_add(request.fixed_runtime_bytes, arena_bytes);
  result.available_bytes = request.budget_bytes > taken ? request.budget_bytes - taken : 0;

  for (PlacedWeight& weight : use.weights) weight.resident = false;
  for (const std::size_t i : admission(use.weights, request.order)) {
    PlacedWeight& weight = use.weights[i];
    weight.resident = true;
    const std::uint64_t resident = saturating_add(result.resident_bytes, weight.bytes);
    weight.resident = saturating_add(resident, ring_bytes(use, request)) <= result.available_bytes;
    if (weight.resident) result.resident_bytes = resident;
  }
  for (const PlacedWeight& weight : use.weights)
    if (!weight.resident) result.streamed_bytes = saturating_add(result.streamed_bytes, weight.bytes);
  result.ring_bytes = ring_bytes(use, request);
  result.fits = request.budget_bytes >= taken &&
                saturating_add(result.resident_bytes, result.ring_bytes) <= result.available_bytes;
  result.weights = std::move(use.weights);
  return result;
}

Residency place_weights(std::vector<PlacedWeight> weights, std::uint64_t arena_bytes,
                        const ResidencyRequest& request) {
  WeightUse use = {std::move(weights), {}};
  for (std::uint32_t i = 0; i < use.weights.size(); ++i) use.steps.push_back({i});
  return place_weights(std::move(use), arena_bytes, request);
}

Residency place_weights(const ir::Program& program, const Plan& plan, const ResidencyRequest& request) {
  return place_weights(use_of(program, plan), plan.arena_bytes, request);
}

std::uint64_t least_budget(const WeightUse& use, std::uint64_t arena_bytes, const ResidencyRequest& request) {
  WeightUse streamed = use;
  for (PlacedWeight& weight : streamed.weights) weight.resident = false;
  return saturating_add(saturating_add(request.fixed_runtime_bytes, arena_bytes),
                        ring_bytes(streamed, request));
}

std::uint64_t least_budget(const ir::Program& program, const Plan& plan, const ResidencyRequest& request) {
  return least_budget(use_of(program, plan), plan.arena_bytes, request);
}

Ring lay_out_ring(const WeightUse& use, std::uint32_t prefetch_distance, std::uint64_t alignment) {
  Ring ring;
  ring.stages = stages_of(use, alignment);
  ring.bytes = largest_window(ring.stages, std::uint64_t{prefetch_distance} + 1);
  const std::size_t n = ring.stages.size();
  for (std::size_t i = 0; i < n; ++i) {
    // Apart from as many neighbours as possible: those before it, and the first ones of the next run.
    for (std::size_t distance = std::min<std::size_t>(prefetch_distance, n - 1);; --distance) {
      std::vector<const RingStage*> near;
      for (std::size_t k = 1; k <= distance; ++k) {
        if (k <= i) near.push_back(&ring.stages[i - k]);
        if (i + k >= n && (i + k) % n < i) near.push_back(&ring.stages[(i + k) % n]);
      }
      const auto offset = gap(ring.stages[i].bytes, std::move(near), ring.bytes);
      if (!offset) continue;
      ring.stages[i].offset = *offset;
      break;
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    std::size_t back = 1;
    while (back < n && !overlap(ring.stages[i], ring.stages[(i + n - back) % n])) ++back;
    ring.stages[i].overwrites = static_cast<std::uint32_t>(back);
  }
  return ring;
}

}  // namespace dif::plan
