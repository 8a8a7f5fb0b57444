#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/program.h"

namespace dif::runtime {

/// How the product of one `linear` is computed.
struct LinearChoice {
  ir::OpId operation = ir::kNoId;
  /// The algorithm at that place of what the library recommends; nothing: the fastest of them, measured
  /// whether it is known already or not.
  std::optional<std::uint32_t> rank;
  bool swiglu = false;  ///< one kernel with the SwiGLU behind it; then there is no algorithm to choose
  std::uint32_t warmups = 0, iterations = 0, sessions = 0;  ///< of a measurement; 0 = the backend's own

  friend bool operator==(const LinearChoice&, const LinearChoice&) = default;
};

/// How an attention library finds its kernel; autotune: the fastest of all, measured.
enum class AttentionHeuristic : std::uint8_t { kDefault, kA, kB, kFallback, kAutotune };

/// Decisions that the caller takes instead of the backend. Results may differ by rounding.
struct ExecutionOptions {
  std::vector<LinearChoice> linears;
  bool more_algorithms = false;  ///< a longer list where algorithms are measured
  AttentionHeuristic attention = AttentionHeuristic::kDefault;
  bool stream_weights = false;  ///< under a budget: nothing stays on the device between runs
  std::vector<std::uint32_t> resident_constants;  ///< positions in program.constants

  friend bool operator==(const ExecutionOptions&, const ExecutionOptions&) = default;
};

/// What of that concerns one kernel.
struct KernelChoices {
  const LinearChoice* linear = nullptr;
  bool more_algorithms = false;
  AttentionHeuristic attention = AttentionHeuristic::kDefault;
  bool heeded = false;  ///< set by a kernel that takes `linear`
};

}  // namespace dif::runtime
