#include "io/checkpoint.h"

#include <algorithm>
#include <array>
#include <set>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "io/file.h"
#include "io/json.h"
#include "io/printable.h"

namespace dif::io {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kMaxIndexBytes = 32ULL << 20;
constexpr std::array<std::string_view, 2> kStems = {"diffusion_pytorch_model", "model"};

/// "model-00002-of-00003.safetensors"
bool is_numbered_shard(std::string_view name) {
  const auto of = name.rfind("-of-");
  return of != std::string_view::npos && of >= 6 && name[of - 6] == '-' &&
         !name.ends_with("-00001-of-00001.safetensors");
}

/// The file or index that a folder stands for.
Result<fs::path> find_in_folder(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    names.push_back(at->path().filename().native());
  if (error)
    return fail(ErrorCode::kIo, "{}: the folder cannot be read: {}", folder.native(), error.message());
  std::sort(names.begin(), names.end());

  for (const std::string_view stem : kStems) {
    for (const std::string_view suffix : {".safetensors.index.json", ".safetensors"}) {
      const std::string wanted = fmt::format("{}{}", stem, suffix);
      if (std::binary_search(names.begin(), names.end(), wanted)) return folder / wanted;
    }
  }
  for (const std::string_view stem : kStems) {
    std::vector<std::string> indexes, files;
    for (const std::string& name : names) {
      if (!name.starts_with(stem)) continue;
      if (name.ends_with(".json") && name.find(".safetensors.index") != std::string::npos)
        indexes.push_back(name);
      if (name.ends_with(".safetensors")) files.push_back(name);
    }
    const std::vector<std::string>& found = indexes.empty() ? files : indexes;
    if (found.empty()) continue;
    if (indexes.empty() && std::any_of(files.begin(), files.end(), is_numbered_shard))
      return invalid_input("{} has shards ({}) but no {}.safetensors.index.json; fetch the index as well",
                           folder.native(), printable(files.front()), stem);
    if (found.size() == 1) return folder / found.front();
    return invalid_input("{} has several checkpoints ({}); name the one to use", folder.native(),
                         printable(fmt::format("{}", fmt::join(found, ", ")), 300));
  }
  return fail(ErrorCode::kNotFound,
              "{} has no diffusion_pytorch_model*.safetensors or model*.safetensors; give a safetensors "
              "file, an index "
              "or the folder that holds one",
              folder.native());
}

std::uint64_t tensor_bytes(const SafetensorsFile& shard) {
  std::uint64_t bytes = 0;
  for (const TensorRef& tensor : shard.tensors()) bytes += tensor.bytes;
  for (const SafetensorsEntry& entry : shard.unusable()) bytes += entry.end - entry.begin;
  return bytes;
}

bool holds_tensor(const SafetensorsFile& shard, std::string_view name) {
  const auto& unusable = shard.unusable();
  return shard.find(name) != nullptr ||
         std::any_of(unusable.begin(), unusable.end(), [&](const auto& entry) { return entry.name == name; });
}

std::vector<std::string_view> all_names(const SafetensorsFile& shard) {
  std::vector<std::string_view> names;
  for (const TensorRef& tensor : shard.tensors()) names.push_back(tensor.name);
  for (const SafetensorsEntry& entry : shard.unusable()) names.push_back(entry.name);
  return names;
}

/// Files of the folder that look like shards but that the index does not name: a renamed shard is among them.
std::string unnamed_shards(const fs::path& folder, const std::set<std::string>& named) {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().native();
    if (name.ends_with(".safetensors") && !named.contains(name)) found.push_back(printable(name));
  }
  std::sort(found.begin(), found.end());
  if (found.size() > 3) found.resize(3);
  return found.empty() ? "" : fmt::format(" (files that no entry names: {})", fmt::join(found, ", "));
}

Result<std::vector<SafetensorsFile>> open_shards(const fs::path& index_path,
                                                 const std::set<std::string>& names) {
  const fs::path folder = index_path.parent_path();
  std::vector<std::string> missing, damaged;
  std::vector<SafetensorsFile> shards;
  for (const std::string& name : names) {
    Result<SafetensorsFile> shard = open_safetensors(folder / name);
    if (shard) {
      shards.push_back(std::move(*shard));
    } else if (shard.error().code == ErrorCode::kNotFound) {
      missing.push_back(fmt::format("shard {} is missing", printable(name)));
    } else {
      damaged.push_back(std::move(shard.error().message));
    }
  }
  if (!missing.empty()) {
    Error error = problem_list(index_path.native(), missing);
    error.message += unnamed_shards(folder, names) + "; fetch the missing files";
    error.code = ErrorCode::kNotFound;
    return tl::unexpected<Error>(std::move(error));
  }
  if (damaged.size() == 1) return invalid_input("{}", damaged.front());
  if (!damaged.empty()) return tl::unexpected<Error>(problem_list(index_path.native(), damaged));
  return shards;
}

/// The index and the shards must tell the same story. Pre: shards are in the order of `names`.
Status check_index(const SafetensorsIndex& index, const std::string& source,
                   const std::set<std::string>& names, const std::vector<SafetensorsFile>& shards) {
  std::unordered_map<std::string_view, std::unordered_set<std::string_view>> held;
  std::uint64_t total = 0;
  std::size_t i = 0;
  for (const std::string& name : names) {
    const std::vector<std::string_view> tensors = all_names(shards[i]);
    held[name] = {tensors.begin(), tensors.end()};
    total += tensor_bytes(shards[i++]);
  }

  std::vector<std::string> absent, extra;
  std::unordered_map<std::string_view, std::string_view> shard_of;
  for (const auto& [tensor, shard] : index.weight_map) {
    shard_of.emplace(tensor, shard);
    if (!held.at(shard).contains(tensor))
      absent.push_back(fmt::format("tensor \"{}\" is not in shard {}", printable(tensor), printable(shard)));
  }
  if (!absent.empty()) return tl::unexpected<Error>(problem_list(source, absent));

  i = 0;
  for (const std::string& name : names) {
    for (const std::string_view tensor : all_names(shards[i++])) {
      const auto at = shard_of.find(tensor);
      if (at == shard_of.end())
        extra.push_back(fmt::format("shard {} has tensor \"{}\", which the index does not name",
                                    printable(name), printable(tensor)));
      else if (at->second != name)
        extra.push_back(fmt::format("shard {} has tensor \"{}\", which the index expects in {}",
                                    printable(name), printable(tensor), printable(at->second)));
    }
  }
  if (!extra.empty()) return tl::unexpected<Error>(problem_list(source, extra));
  if (index.total_size && *index.total_size != total)
    return invalid_input(
        "{}: total_size is {}, the shards hold {} bytes of tensors; index and shards are not of one "
        "checkpoint, fetch all of them again",
        source, *index.total_size, total);
  return ok();
}

}  // namespace

Result<Checkpoint> open_checkpoint(const fs::path& path) {
  std::error_code error;
  fs::path file = path;
  if (fs::is_directory(path, error)) {
    DIF_ASSIGN(file, find_in_folder(path));
  }

  Checkpoint checkpoint;
  checkpoint.path_ = file;
  if (file.extension() != ".json") {
    DIF_ASSIGN(SafetensorsFile single, open_safetensors(file));
    checkpoint.shards_.push_back(std::move(single));
  } else {
    DIF_ASSIGN(const std::string text, read_text_file(file, kMaxIndexBytes));
    DIF_ASSIGN(const SafetensorsIndex index, parse_safetensors_index(text, file.native()));
    std::set<std::string> names;
    for (const auto& [tensor, shard] : index.weight_map) names.insert(shard);
    DIF_ASSIGN(checkpoint.shards_, open_shards(file, names));
    DIF_TRY(check_index(index, file.native(), names, checkpoint.shards_));
  }
  checkpoint.index_tensors();
  return checkpoint;
}

void Checkpoint::index_tensors() {
  for (const SafetensorsFile& shard : shards_) {
    total_bytes_ += tensor_bytes(shard);
    for (const TensorRef& tensor : shard.tensors()) {
      order_.push_back(&tensor);
      by_name_.emplace(tensor.name, &tensor);
    }
  }
}

std::vector<std::string> Checkpoint::names() const {
  std::vector<std::string> names;
  names.reserve(order_.size());
  for (const TensorRef* tensor : order_) names.push_back(tensor->name);
  return names;
}

const TensorRef* Checkpoint::find(std::string_view name) const {
  const auto at = by_name_.find(name);
  return at == by_name_.end() ? nullptr : at->second;
}

Result<const TensorRef*> Checkpoint::require(std::string_view name) const {
  if (const TensorRef* tensor = find(name)) return tensor;
  for (const SafetensorsFile& shard : shards_)
    if (holds_tensor(shard, name)) return shard.require(name);  // says why it cannot be used
  return fail(ErrorCode::kNotFound, "{} has no tensor \"{}\" among its {}", path_.native(), printable(name),
              order_.size());
}

Result<std::vector<Digest>> Checkpoint::shard_digests(const std::stop_token& stop) const {
  if (digests_.empty()) {
    std::vector<const MappedFile*> files;
    for (const SafetensorsFile& shard : shards_) files.push_back(&shard.file());
    DIF_ASSIGN(digests_, digest_files(files, stop));
  }
  return digests_;
}

Result<Digest> Checkpoint::digest(const std::stop_token& stop) const {
  DIF_ASSIGN(const std::vector<Digest> digests, shard_digests(stop));
  if (digests.size() == 1) return digests.front();
  Sha256 hash;
  for (const Digest& digest : digests) hash.update(std::as_bytes(std::span(digest)));
  return hash.finish();
}

Status Checkpoint::check() const {
  for (const SafetensorsFile& shard : shards_) DIF_TRY(shard.file().check());
  return ok();
}

}  // namespace dif::io
