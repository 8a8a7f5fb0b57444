#pragma once

#include <map>
#include <string>
#include <vector>

#include "dif/status.h"
#include "frontends/model.h"
#include "opt/pipeline.h"
#include "runtime/backend_library.h"

namespace dif {

/// What each program of a chain went through, by the program's name.
using ChainPasses = std::map<std::string, std::vector<opt::PassReport>>;

/// Runs the passes over every program of the chain. Constants are bound by name, so the sets of the stages
/// serve the programs after the passes too. Errors: Internal.
Result<ChainPasses> optimize_chain(frontends::Chain& chain, const opt::Pipeline& pipeline);

/// What the plug-in reports, for opt::default_pipeline.
opt::Preferences preferences_of(const runtime::BackendLibrary& library);

}  // namespace dif
