#pragma once

#include <filesystem>

#include "dif/status.h"

namespace dif::cli {

/// The folder of the running program.
std::filesystem::path program_folder();

/// The model that comes with the project: the folder that DIF_MODEL names, else models/emoji-klein beside the
/// program's folder (a build tree or an unpacked bundle). Errors: NotFound, saying where it was looked for.
Result<std::filesystem::path> bundled_model();

}  // namespace dif::cli
