#pragma once

#include <cstdint>
#include <vector>

#include "ir/program.h"

namespace dif::plan {

/// The operations from the one that defines a value to the last one that reads it or a view of it, both
/// included.
struct Lifetime {
  ir::OpId first = 0;
  ir::OpId last = 0;
};

/// The value whose bytes each value uses: itself, or what a chain of views looks at.
std::vector<ir::ValueId> view_roots(const ir::Program& program);

/// Per value; meaningful for results that are their own root. An output lives until one past the last
/// operation.
std::vector<Lifetime> lifetimes(const ir::Program& program, const std::vector<ir::ValueId>& roots);

/// Whether each value depends on constants alone (a constant does).
std::vector<bool> constant_values(const ir::Program& program);

}  // namespace dif::plan
