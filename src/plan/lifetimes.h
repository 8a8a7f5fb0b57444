#pragma once

#include <cstdint>
#include <vector>

#include "ir/program.h"

namespace dif::plan {

/// The steps from the one that defines a value to the last one that reads it or a view of it, both included.
struct Lifetime {
  std::uint32_t first = 0;
  std::uint32_t last = 0;
};

/// The value whose bytes each value uses: itself, or what a chain of views looks at.
std::vector<ir::ValueId> view_roots(const ir::Program& program);

/// Per value; meaningful for results that are their own root. `step_of` is the step of each operation, out of
/// `n_steps`. An output lives until one past the last step.
std::vector<Lifetime> lifetimes(const ir::Program& program, const std::vector<ir::ValueId>& roots,
                                const std::vector<std::uint32_t>& step_of, std::uint32_t n_steps);

/// Whether each value depends on constants alone (a constant does).
std::vector<bool> constant_values(const ir::Program& program);

}  // namespace dif::plan
