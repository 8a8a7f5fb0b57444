#pragma once

#include <string_view>

#include "dif/status.h"
#include "ir/program.h"

namespace dif::test {

/// The verified program of a listing that ir::to_text() made; for tests only. Comments are dropped, and with
/// them provenance. Errors: InvalidInput naming the line.
Result<ir::Program> parse_program(std::string_view text);

}  // namespace dif::test
