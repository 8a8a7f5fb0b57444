#pragma once

#include <cstdint>
#include <vector>

#include "base/error.h"
#include "ir/program.h"

namespace dif::plan {

/// How the elements of a value lie: runs of `run` elements side by side, of which each begins `pitch`
/// elements after the one before. Dense values have no run.
struct Pitch {
  std::int64_t run = 0, pitch = 0;

  bool dense() const { return run == 0; }
  friend bool operator==(const Pitch&, const Pitch&) = default;
};

/// What the kernels of a backend can read and write besides dense values. Null: nothing else.
struct PitchRules {
  bool (*reads)(const ir::OpView& op, std::size_t operand, const Pitch& pitch) = nullptr;
  bool (*writes)(const ir::OpView& op, const Pitch& pitch) = nullptr;
};

/// A value whose elements lie among those of another.
struct Inside {
  ir::ValueId value = ir::kNoId;
  ir::ValueId host = ir::kNoId;
  std::uint64_t first_byte = 0;  ///< of the host, where the value begins
  Pitch pitch;
};

/// Operations that need not run, because their values can lie where they are needed: a slice is read where it
/// lies in its operand, the operands of a concatenation are written where they lie in its result. Values that
/// are not dense go only where `rules` allow it, and nobody but the run's own operations sees them.
/// Ascending.
std::vector<ir::OpId> choose_in_place(const ir::Program& program, const PitchRules& rules);

/// Who lies where when `ops` do not run. Errors: InvalidInput (an operation that has to run, or two that want
/// one value).
Result<std::vector<Inside>> lie_inside(const ir::Program& program, const std::vector<ir::OpId>& ops);

}  // namespace dif::plan
