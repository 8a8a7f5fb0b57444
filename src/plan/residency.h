#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "ir/program.h"
#include "plan/plan.h"

namespace dif::plan {

/// In which order weights are admitted to the memory of a device.
enum class ResidentOrder : std::uint8_t {
  kFirst,    ///< as the steps read them
  kLargest,  ///< the largest first; of one size, as the steps read them
};

/// "first", "largest"
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

/// The arithmetic of weight placement:
///
///     available = budget - fixed runtime - arena
///     ring      = the largest sum of `prefetch distance + 1` streamed weights that follow each other
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

/// `weights` in the order in which the steps first read them.
Residency place_weights(std::vector<PlacedWeight> weights, std::uint64_t arena_bytes,
                        const ResidencyRequest& request);
Residency place_weights(const ir::Program& program, const Plan& plan, const ResidencyRequest& request);

/// The least budget with which `place_weights` fits: everything streamed.
std::uint64_t least_budget(const ir::Program& program, const Plan& plan, const ResidencyRequest& request);

}  // namespace dif::plan
