#pragma once

#include <string>
#include <string_view>

#include "plan/plan.h"

namespace dif::plan {

/// "input", "constant", "folded", "arena", "register"
std::string_view storage_name(Storage storage);

/// One line for each value that has bytes of its own: where it lives, and for arena values the bytes and the
/// operations (with groups: the steps) during which they are taken:
///
///     %4 arena 0 + 49152, operations 0 to 3 : f32[1, 64, 192]
///     %5 looks at %4 : f32[64, 192]
std::string assignments_text(const ir::Program& program, const Plan& plan);

}  // namespace dif::plan
