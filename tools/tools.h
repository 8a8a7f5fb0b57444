#pragma once

#include <span>

#include "cli/tool.h"

namespace dif::tools {

#define DIF_TOOL(name) extern const cli::Tool k_##name;
#include "tools.def"
#undef DIF_TOOL

/// Every tool in the order of tools.def.
std::span<const cli::Tool* const> all_tools();

}  // namespace dif::tools
