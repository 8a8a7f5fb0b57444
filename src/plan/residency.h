#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "ir/program.h"
#include "plan/plan.h"

namespace dif::plan {

/// In which order weights are admitted to the memory of a device.
enum class ResidentOrder : std::uint8_t {
  kFirst,    ///< as the steps read them
  kLargest,  ///< the largest first; of one size, as the steps read them
  kSpread,   ///< those below 1 MiB first; then so that what is streamed is needed evenly while steps work
};

/// "first", "largest", "spread"
std::string_view order_name(ResidentOrder order);
std::optional<ResidentOrder> order_from_name(std::string_view name);

struct ResidencyRequest {
  std::uint64_t budget_bytes = 0;         ///< of device memory for everything
  std::uint64_t fixed_runtime_bytes = 0;  ///< what driver and libraries take of it
  ResidentOrder order = ResidentOrder::kFirst;
  std::uint32_t prefetch_distance = 1;  ///< how many streamed weights are fetched ahead of the one in use

  friend bool operator==(const ResidencyRequest&, const ResidencyRequest&) = default;
};

/// A constant, or what was folded from constants, that steps read.
struct PlacedWeight {
  ir::ValueId value = ir::kNoId;
  std::uint64_t bytes = 0;
  bool resident = true;  ///< else streamed: fetched again in every run

  friend bool operator==(const PlacedWeight&, const PlacedWeight&) = default;
};

/// Weights in the order in which the steps first read them, and which of them each step reads: indexes into
/// the list, for the steps that read any, in the order of the steps.
struct WeightUse {
  std::vector<PlacedWeight> weights;
  std::vector<std::vector<std::uint32_t>> steps;
  /// Per step: FLOP of the step and of those behind it that read no weight. Empty: one is as good as another.
  std::vector<double> work;

  /// The next step of the run. What comes before the first one that reads a weight is left out.
  void add_step(std::vector<std::uint32_t> reads, double flop);
};

/// The arithmetic of weight placement:
///
///     available = budget - fixed runtime - arena
///     stage     = the streamed weights of one step, which are on the device together
///     ring      = the largest sum of `prefetch distance + 1` stages that follow each other
///     a weight is admitted when resident + weight + ring of all that are not yet admitted <= available
///
/// The ring wraps around: a run follows a run. With everything resident there is no ring.
struct Residency {
  ResidencyRequest request;
  std::uint64_t arena_bytes = 0;
  std::uint64_t available_bytes = 0;  ///< 0 when the rest of the budget is less than nothing
  std::uint64_t resident_bytes = 0;
  std::uint64_t streamed_bytes = 0;
  std::uint64_t ring_bytes = 0;
  bool fits = true;                   ///< resident_bytes + ring_bytes <= available_bytes
  std::vector<PlacedWeight> weights;  ///< in the order in which the steps first read them

  friend bool operator==(const Residency&, const Residency&) = default;
};

/// `kept` are admitted before all others.
Residency place_weights(WeightUse use, std::uint64_t arena_bytes, const ResidencyRequest& request,
                        std::span<const ir::ValueId> kept = {});
/// `weights` in the order in which the steps first read them, each by a step of its own.
Residency place_weights(std::vector<PlacedWeight> weights, std::uint64_t arena_bytes,
                        const ResidencyRequest& request);
Residency place_weights(const ir::Program& program, const Plan& plan, const ResidencyRequest& request);

/// The least budget with which `place_weights` fits: everything streamed.
std::uint64_t least_budget(const ir::Program& program, const Plan& plan, const ResidencyRequest& request);
std::uint64_t least_budget(const WeightUse& use, std::uint64_t arena_bytes, const ResidencyRequest& request);

/// The streamed weights of one step and their place in the ring, one behind the other.
struct RingStage {
  std::uint32_t step = 0;              ///< index into WeightUse::steps
  std::vector<std::uint32_t> weights;  ///< indexes into WeightUse::weights
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  /// It takes the place of the stage that many before it (around the end of a run), which must be done by
  /// then; those between the two lie elsewhere. At most the number of stages.
  std::uint32_t overwrites = 0;
};

struct Ring {
  std::uint64_t bytes = 0;
  std::vector<RingStage> stages;
};

/// Offsets for the stages of what is not resident: apart from the `prefetch distance` stages before them
/// where the ring has a gap for that. Weights and stages begin at multiples of `alignment`.
Ring lay_out_ring(const WeightUse& use, std::uint32_t prefetch_distance, std::uint64_t alignment);

}  // namespace dif::plan
