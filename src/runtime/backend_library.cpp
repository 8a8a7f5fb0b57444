#include "runtime/backend_library.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "runtime/abi_codes.h"

namespace dif::runtime {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kPrefix = "libdif_";
constexpr std::string_view kSuffix = ".so";

/// The folder that libdif itself was loaded from.
fs::path own_folder() {
  Dl_info info = {};
  if (dladdr(reinterpret_cast<const void*>(&available_backends), &info) == 0 || info.dli_fname == nullptr)
    return {};
  std::error_code ignored;
  return fs::absolute(info.dli_fname, ignored).parent_path();
}

std::vector<fs::path> search_folders() {
  std::vector<fs::path> folders;
  if (const char* chosen = std::getenv("DIF_BACKEND_DIR"); chosen != nullptr && *chosen != '\0')
    folders.emplace_back(chosen);
  folders.push_back(own_folder());
  return folders;
}

tl::unexpected<Error> unusable(const fs::path& file, const std::string& why) {
  return fail(ErrorCode::kUnavailable, "{}: not a usable backend: {}", file.string(), why);
}

/// Every function is part of major version 1.
bool is_complete(const dif_backend_api& api) {
  return api.name != nullptr && api.version != nullptr && api.probe && api.context_create &&
         api.context_destroy && api.prepare && api.prepared_destroy && api.report && api.run &&
         api.run_loop && api.value_create && api.value_destroy && api.value_write && api.value_read;
}

}  // namespace

Result<std::shared_ptr<const BackendLibrary>> BackendLibrary::load(const fs::path& file) {
  std::error_code missing;
  if (!fs::exists(file, missing))
    return fail(ErrorCode::kUnavailable, "{}: there is no such backend file", file.string());
  // Thread pools and drivers that a plug-in brings in do not survive being unmapped.
  void* handle = dlopen(fs::absolute(file, missing).c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) return unusable(file, dlerror());
  auto library = std::shared_ptr<BackendLibrary>(new BackendLibrary(file, handle));
  const auto entry = reinterpret_cast<dif_backend_entry_function>(dlsym(handle, "dif_backend_entry"));
  if (entry == nullptr) return unusable(file, "it does not export dif_backend_entry");
  const dif_backend_api* api = entry(DIF_ABI_MAJOR, DIF_ABI_MINOR);
  if (api == nullptr) return unusable(file, fmt::format("it does not support ABI version {}", DIF_ABI_MAJOR));
  // Size and version come first in every version of the table; nothing else is read before they are known
  // good.
  if (api->struct_size < offsetof(dif_backend_api, name) || api->abi_major != DIF_ABI_MAJOR)
    return unusable(file,
                    fmt::format("it has ABI version {}, this program has {}", api->abi_major, DIF_ABI_MAJOR));
  if (api->struct_size < offsetof(dif_backend_api, prefers) || !is_complete(*api))
    return unusable(file, "its table of functions is incomplete");
  library->api_ = api;
  return std::shared_ptr<const BackendLibrary>(std::move(library));
}

std::uint32_t BackendLibrary::prefers() const {
  const bool has_it = api_->struct_size >= offsetof(dif_backend_api, prefers) + sizeof(api_->prefers);
  return has_it ? api_->prefers : 0;
}

Result<std::shared_ptr<const BackendLibrary>> BackendLibrary::load_by_name(const std::string& name) {
  if (name.empty() || name.find('/') != std::string::npos)
    return invalid_input("\"{}\" is not a backend name; use --backend-plugin for a file", name);
  for (const fs::path& folder : search_folders()) {
    const fs::path file = folder / (std::string(kPrefix) + name + std::string(kSuffix));
    std::error_code ignored;
    if (fs::exists(file, ignored)) return load(file);
  }
  return fail(ErrorCode::kUnavailable, "there is no backend \"{}\" here; available: {}", name,
              fmt::join(available_backends(), ", "));
}

BackendLibrary::~BackendLibrary() {
  if (handle_ != nullptr) dlclose(handle_);
}

Result<std::string> BackendLibrary::probe() const {
  const char* json = nullptr;
  ErrorText error;
  DIF_TRY(error.status(api_->probe(&json, error.get()), *this));
  return std::string(json == nullptr ? "{}" : json);
}

std::vector<std::string> available_backends() {
  std::vector<std::string> names;
  for (const fs::path& folder : search_folders()) {
    std::error_code ignored;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
      const std::string file = entry.path().filename();
      if (!file.starts_with(kPrefix) || !file.ends_with(kSuffix)) continue;
      names.push_back(file.substr(kPrefix.size(), file.size() - kPrefix.size() - kSuffix.size()));
    }
  }
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

Status ErrorText::status(dif_code code, const BackendLibrary& library) const {
  if (code == DIF_OK) return ok();
  // A plug-in may have filled the buffer without an end.
  std::string sentence(text_, strnlen(text_, sizeof(text_)));
  if (sentence.empty()) sentence = fmt::format("failed with code {}", code);
  return fail(from_abi(code), "backend {}: {}", library.name(), sentence);
}

}  // namespace dif::runtime
