#include "cli/bundled.h"

#include <cstdlib>

#include "base/error.h"

namespace dif::cli {

namespace fs = std::filesystem;

fs::path program_folder() {
  std::error_code ignored;
  return fs::read_symlink("/proc/self/exe", ignored).parent_path();
}

Result<fs::path> bundled_model() {
  if (const char* chosen = std::getenv("DIF_MODEL"); chosen != nullptr && *chosen != '\0')
    return fs::path(chosen);
  const fs::path folder = program_folder();
  for (const fs::path& base : {folder, folder.parent_path()}) {
    std::error_code ignored;
    if (fs::exists(base / "models/emoji-klein/model_index.json", ignored)) return base / "models/emoji-klein";
  }
  return fail(
      ErrorCode::kNotFound, "the bundled model is neither in {} nor in {}; name a model with --model DIR",
      (folder / "models/emoji-klein").string(), (folder.parent_path() / "models/emoji-klein").string());
}

}  // namespace dif::cli
