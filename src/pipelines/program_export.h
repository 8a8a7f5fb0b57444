#pragma once

#include <filesystem>

#include "dif/status.h"
#include "frontends/model.h"

namespace dif {

/// Writes a bundle for the stage's program to `bundle`, and beside it, as NAME.tables.safetensors, the
/// constants that no checkpoint holds. Errors: Io, InvalidInput.
Status export_bundle(const frontends::Stage& stage, const std::filesystem::path& bundle);

/// Writes the programs of a chain so that difrun can run them: for each of encode, step and decode a
/// NAME.difir with its provenance sidecar, a NAME.difbind that says where the constants are, and
/// NAME.tables.safetensors with the constants that no checkpoint holds (rotary tables, schedule). The folder
/// is created when it does not exist. Every file is written atomically. Errors: Io, InvalidInput.
Status export_chain(const frontends::Chain& chain, const std::filesystem::path& folder);

}  // namespace dif
