#include "backends/cuda/library_search.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "base/error.h"

namespace dif::cuda {

namespace fs = std::filesystem;

namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// The folders below `folder`, sorted; none where it cannot be read.
std::vector<fs::path> folders_in(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    if (std::error_code ignored; entry->is_directory(ignored)) found.push_back(entry->path());
  std::ranges::sort(found);
  return found;
}

/// The file that an open library came from.
std::string origin(void* handle, const std::string& fallback) {
  link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr && map->l_name[0] != '\0')
    return map->l_name;
  return fallback;
}

}  // namespace

std::vector<std::string> library_candidates(const LibraryName& library, const SearchPlaces& places) {
  std::vector<std::string> candidates;
  const auto add_folder = [&](const fs::path& folder) {
    for (const std::string& name : library.file_names) candidates.push_back((folder / name).string());
  };
  if (!places.chosen.empty()) {
    std::error_code ignored;
    if (!fs::is_directory(places.chosen, ignored)) return {places.chosen};
    add_folder(places.chosen);
    return candidates;
  }
  candidates = library.file_names;
  if (!places.cuda_home.empty()) add_folder(fs::path(places.cuda_home) / "lib64");
  for (const fs::path& folder : places.wheel_folders) add_folder(folder);
  add_folder("/usr/local/cuda/lib64");
  return candidates;
}

std::vector<fs::path> wheel_folders(const std::string& path) {
  std::istringstream folders(path);
  std::vector<fs::path> found;
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (folder.empty() || access((fs::path(folder) / "python3").c_str(), X_OK) != 0) continue;
    for (const fs::path& version : folders_in(fs::path(folder).parent_path() / "lib")) {
      if (!version.filename().string().starts_with("python3")) continue;
      for (const char* packages : {"site-packages", "dist-packages"})
        for (const fs::path& wheel : folders_in(version / packages / "nvidia"))
          if (std::error_code ignored; fs::is_directory(wheel / "lib", ignored))
            found.push_back(wheel / "lib");
    }
    break;
  }
  return found;
}

SearchPlaces search_places(const LibraryName& library) {
  return {variable(library.variable), variable("CUDA_HOME"), wheel_folders(variable("PATH"))};
}

Result<OpenLibrary> open_library(const LibraryName& library) {
  std::string reason;
  for (const std::string& candidate : library_candidates(library, search_places(library))) {
    // Global, so that libraries which these open by name find them.
    if (void* const handle = dlopen(candidate.c_str(), RTLD_NOW | RTLD_GLOBAL))
      return OpenLibrary{handle, origin(handle, candidate)};
    const char* said = dlerror();
    if (reason.empty() && said != nullptr) reason = said;
  }
  return fail(ErrorCode::kUnavailable, "{} cannot be opened ({}); install it or name it in {}", library.what,
              reason, library.variable);
}

}  // namespace dif::cuda
