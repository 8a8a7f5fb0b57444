#include "frontends/flux2/component_files.h"

#include <algorithm>
#include <system_error>
#include <vector>

#include "base/error.h"

namespace dif::frontends::flux2 {

namespace fs = std::filesystem;

namespace {

std::vector<fs::path> safetensors_in(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    if (entry->path().extension() == ".safetensors") files.push_back(entry->path());
  std::sort(files.begin(), files.end());
  return files;
}

bool has_standard_names(const fs::path& folder) {
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const bool stem = name.starts_with("diffusion_pytorch_model") || name.starts_with("model");
    if (stem && (name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json"))) return true;
  }
  return false;
}

std::string names_of(const std::vector<fs::path>& files) {
  std::string list;
  for (const fs::path& file : files)
    list += fmt::format("{}{}", list.empty() ? "" : ", ", file.filename().string());
  return list;
}

/// The file at the root that holds the part, or nothing.
Result<std::optional<io::Checkpoint>> find_at_root(const fs::path& folder, std::string_view component,
                                                   bool (*holds)(const io::Checkpoint&)) {
  std::optional<io::Checkpoint> found;
  std::vector<fs::path> holders;
  for (const fs::path& file : safetensors_in(folder)) {
    DIF_ASSIGN(io::Checkpoint checkpoint, io::open_checkpoint(file));
    if (!holds(checkpoint)) continue;
    holders.push_back(file);
    found = std::move(checkpoint);
  }
  if (holders.size() > 1)
    return invalid_input("{}: several files hold a {}: {}; keep one, or put the right one into {}",
                         folder.string(), component, names_of(holders), (folder / component).string());
  return found;
}

Result<io::Checkpoint> open_in_folder(const fs::path& home) {
  if (has_standard_names(home)) return io::open_checkpoint(home);
  const std::vector<fs::path> files = safetensors_in(home);
  if (files.size() > 1)
    return invalid_input(
        "{}: several .safetensors files ({}) and none with a standard name such as "
        "diffusion_pytorch_model.safetensors; keep the one to use",
        home.string(), names_of(files));
  return io::open_checkpoint(files.front());
}

}  // namespace

Result<ComponentFiles> open_component(const fs::path& folder, std::string_view component,
                                      bool (*holds)(const io::Checkpoint&), const fs::path& file) {
  const fs::path home = folder / component;
  const fs::path config_path = home / "config.json";
  std::error_code error;
  std::optional<io::JsonDocument> config;
  if (fs::exists(config_path, error)) {
    DIF_ASSIGN(config, io::JsonDocument::read(config_path));
  }
  if (!file.empty()) {
    DIF_ASSIGN(io::Checkpoint checkpoint, io::open_checkpoint(file));
    if (!holds(checkpoint))
      return invalid_input("{}: it holds no {} of this family", file.string(), component);
    return ComponentFiles{std::move(checkpoint), std::move(config)};
  }
  if (!safetensors_in(home).empty() || has_standard_names(home)) {
    if (!config) return fail(ErrorCode::kNotFound, "{}: there are weights but no config.json", home.string());
    DIF_ASSIGN(io::Checkpoint checkpoint, open_in_folder(home));
    return ComponentFiles{std::move(checkpoint), std::move(config)};
  }
  if (holds != nullptr) {
    DIF_ASSIGN(std::optional<io::Checkpoint> found, find_at_root(folder, component, holds));
    if (found) return ComponentFiles{std::move(*found), std::move(config)};
  }
  if (!fs::is_directory(home, error))
    return fail(ErrorCode::kNotFound, "{}: the folder {} is missing, which model_index.json names",
                folder.string(), component);
  return fail(ErrorCode::kNotFound, "{}: no weights (.safetensors) in it", home.string());
}

}  // namespace dif::frontends::flux2
