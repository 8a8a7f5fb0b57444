#include "plan/residency.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <set>

#include "base/checked_math.h"

namespace dif::plan {

namespace {

constexpr std::uint64_t kSmallBytes = 1 << 20;

WeightUse use_of(const ir::Program& program, const Plan& plan) {
  WeightUse use;
  std::vector<std::uint32_t> index(program.values.size(), ir::kNoId);
  std::vector<std::uint32_t> reads;
  double flop = 0;
  const auto read = [&](ir::OpId op) {
    flop += ir::flops(program.view(op));
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
    flop = 0;
    if (step.group != ir::kNoId) {
      for (const ir::OpId op : plan.groups[step.group].ops) read(op);
    } else if (!plan.folded[step.op] && !program.ops[step.op].def->is_view) {
      read(step.op);
    }
    use.add_step(reads, flop);
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

/// Copies go at an even pace, steps read in leaps: what is due runs ahead of the pace here and falls behind
/// it there, and the difference has to wait in the ring, or the steps have to wait. This finds the order in
/// which weights are best kept on the device: each time the one without which that difference is least.
class EvenPace {
 public:
  explicit EvenPace(const WeightUse& use) : use_(use) {
    const bool known = std::ranges::any_of(use.work, [](double flop) { return flop > 0; });
    std::vector<bool> seen(use.weights.size());
    for (std::size_t step = 0; step < use.steps.size(); ++step) {
      for (const std::uint32_t weight : use.steps[step])
        if (!seen[weight]) add(weight), seen[weight] = true;
      end_ += known ? use.work[step] : 1;
    }
  }

  /// The large weights, first the one that is best kept.
  std::vector<std::size_t> order() {
    std::vector<std::size_t> result;
    while (!left_.empty()) {
      const std::size_t best = best_to_keep();
      result.push_back(left_[best].weight);
      left_.erase(left_.begin() + static_cast<std::ptrdiff_t>(best));
    }
    return result;
  }

 private:
  /// Weights of other sizes wait until those of the largest ones are kept.
  static constexpr std::size_t kMostSizes = 16;

  struct Due {
    std::size_t weight = 0;
    double at = 0, bytes = 0;  ///< FLOP before the step that reads it
  };
  struct Extremes {
    double least = std::numeric_limits<double>::infinity(), most = -least;

    void add(double from, double to) {
      least = std::min(least, from);
      most = std::max(most, to);
    }
  };

  void add(std::uint32_t weight) {
    if (use_.weights[weight].bytes >= kSmallBytes)
      left_.push_back({weight, end_, static_cast<double>(use_.weights[weight].bytes)});
  }

  std::size_t best_to_keep() const {
    std::set<double, std::greater<>> sizes;
    double all = 0;
    for (const Due& due : left_) {
      sizes.insert(due.bytes);
      all += due.bytes;
    }
    std::size_t best = 0, n_sizes = 0;
    double least = std::numeric_limits<double>::infinity();
    for (const double size : sizes) {
      if (n_sizes++ == kMostSizes) break;
      const double pace = (all - size) / end_;
      std::vector<Extremes> behind(left_.size() + 1);  // per weight: of it and those behind it
      double due = all;
      for (std::size_t i = left_.size(); i-- > 0;) {
        behind[i] = behind[i + 1];
        behind[i].add(due - left_[i].bytes - pace * left_[i].at, due - pace * left_[i].at);
        due -= left_[i].bytes;
      }
      Extremes before;
      due = 0;
      for (std::size_t i = 0; i < left_.size(); ++i) {
        if (left_[i].bytes == size) {
          Extremes without = before;
          without.add(behind[i + 1].least - size, behind[i + 1].most - size);
          if (without.most - without.least < least) {
            least = without.most - without.least;
            best = i;
          }
        }
        before.add(due - pace * left_[i].at, due + left_[i].bytes - pace * left_[i].at);
        due += left_[i].bytes;
      }
    }
    return best;
  }

  const WeightUse& use_;
  std::vector<Due> left_;  ///< in the order of the steps
  double end_ = 0;         ///< FLOP of a run
};

/// In which order weights ask to be admitted.
std::vector<std::size_t> in_order(const WeightUse& use, ResidentOrder order) {
  std::vector<std::size_t> result(use.weights.size());
  std::iota(result.begin(), result.end(), 0U);
  const auto bytes = [&](std::size_t i) { return use.weights[i].bytes; };
  if (order == ResidentOrder::kLargest) std::ranges::stable_sort(result, std::greater<>(), bytes);
  if (order != ResidentOrder::kSpread) return result;
  const auto large = std::stable_partition(result.begin(), result.end(),
                                           [&](std::size_t i) { return bytes(i) < kSmallBytes; });
  std::ranges::copy(EvenPace(use).order(), large);
  return result;
}

std::vector<std::size_t> admission(const WeightUse& use, ResidentOrder order,
                                   std::span<const ir::ValueId> kept) {
  std::vector<std::size_t> result = in_order(use, order);
  std::stable_partition(result.begin(), result.end(), [&](std::size_t i) {
    return std::ranges::find(kept, use.weights[i].value) != kept.end();
  });
  return result;
}

bool overlap(const RingStage& a, const RingStage& b) {
  return a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

/// How many stages before stage `i`, around the end of a run, the one is whose bytes stage `i` takes at its
/// offset, among the first `placed` stages; the number of stages where there is none.
std::size_t stages_back(const std::vector<RingStage>& stages, std::size_t i, std::size_t placed) {
  const std::size_t n = stages.size();
  for (std::size_t back = 1; back < n; ++back) {
    const std::size_t other = (i + n - back) % n;
    if (other < placed && overlap(stages[i], stages[other])) return back;
  }
  return n;
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

void WeightUse::add_step(std::vector<std::uint32_t> reads, double flop) {
  if (!reads.empty()) {
    steps.push_back(std::move(reads));
    work.push_back(flop);
  } else if (!work.empty()) {
    work.back() += flop;
  }
}

Residency place_weights(WeightUse use, std::uint64_t arena_bytes, const ResidencyRequest& request,
                        std::span<const ir::ValueId> kept) {
  Residency result;
  result.request = request;
  result.arena_bytes = arena_bytes;
  const std::uint64_t taken = saturating_add(request.fixed_runtime_bytes, arena_bytes);
  result.available_bytes = request.budget_bytes > taken ? request.budget_bytes - taken : 0;

  for (PlacedWeight& weight : use.weights) weight.resident = false;
  for (const std::size_t i : admission(use, request.order, kept)) {
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
  WeightUse use = {std::move(weights), {}, {}};
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
  // Each lies where what it overwrites was used the longest time ago: beside the end of another one.
  std::set<std::uint64_t> ends = {0, ring.bytes};
  for (std::size_t i = 0; i < ring.stages.size(); ++i) {
    RingStage& stage = ring.stages[i];
    std::set<std::uint64_t> offsets;
    for (const std::uint64_t end : ends)
      for (const std::uint64_t offset : {end, end - stage.bytes})
        if (offset <= ring.bytes - stage.bytes) offsets.insert(offset);
    std::uint64_t best = 0;
    std::size_t oldest = 0;
    for (const std::uint64_t offset : offsets) {
      stage.offset = offset;
      const std::size_t back = stages_back(ring.stages, i, i);
      if (back > oldest) {
        oldest = back;
        best = offset;
      }
    }
    stage.offset = best;
    ends.insert({best, best + stage.bytes});
  }
  for (std::size_t i = 0; i < ring.stages.size(); ++i)
    ring.stages[i].overwrites = static_cast<std::uint32_t>(stages_back(ring.stages, i, ring.stages.size()));
  return ring;
}

}  // namespace dif::plan
