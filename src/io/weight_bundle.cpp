#include "io/weight_bundle.h"

#include <utility>

#include "base/error.h"
#include "io/json.h"
#include "io/printable.h"

namespace dif::io {

namespace fs = std::filesystem;

namespace {

/// Where a shard may be, best first.
std::vector<fs::path> candidates(const fs::path& bundle, const BundleShard& shard,
                                 const fs::path& weights_folder) {
  const fs::path relative(shard.path);
  std::vector<fs::path> paths = {bundle.parent_path() / relative};
  if (weights_folder.empty()) return paths;
  fs::path below;
  for (const fs::path& part : relative)
    if (part != "..") below /= part;
  paths.push_back(weights_folder / below);
  if (below != relative.filename()) paths.push_back(weights_folder / relative.filename());
  return paths;
}

/// The first candidate that is there with the right size; else why none is.
Result<MappedFile> open_shard(const fs::path& bundle, const BundleShard& shard,
                              const fs::path& weights_folder) {
  std::string reasons;
  ErrorCode code = ErrorCode::kNotFound;
  for (const fs::path& path : candidates(bundle, shard, weights_folder)) {
    Result<MappedFile> file = MappedFile::open(path);
    if (file && file->size() == shard.size) return file;
    if (!reasons.empty()) reasons += "; ";
    if (file) {
      reasons += fmt::format("{} has {} bytes, expected {}", path.native(), file->size(), shard.size);
      code = ErrorCode::kInvalidInput;
    } else {
      reasons += file.error().message;
      if (file.error().code != ErrorCode::kNotFound) code = file.error().code;
    }
  }
  return fail(code, "{}", reasons);
}

}  // namespace

Result<WeightBundle> open_weight_bundle(const fs::path& path, const BundleOptions& options) {
  WeightBundle bundle;
  bundle.path_ = path;
  DIF_ASSIGN(bundle.record_, read_weight_bundle(path));

  std::vector<std::string> problems;
  ErrorCode code = ErrorCode::kInvalidInput;
  for (const BundleShard& shard : bundle.record_.shards) {
    Result<MappedFile> file = open_shard(path, shard, options.weights_folder);
    if (!file) {
      code = file.error().code;
      problems.push_back(fmt::format("shard {}: {}", printable(shard.path), file.error().message));
      continue;
    }
    bundle.shards_.push_back(std::make_unique<MappedFile>(std::move(*file)));
  }
  if (!problems.empty()) {
    Error error = problem_list(path.native(), problems);
    error.code = code;
    return tl::unexpected<Error>(std::move(error));
  }
  if (options.verify_shards) DIF_TRY(bundle.verify_shards());

  for (const BundleTensor& tensor : bundle.record_.tensors) {
    const MappedFile& file = *bundle.shards_[tensor.shard];
    bundle.tensors_.push_back({.name = tensor.name,
                               .dtype = tensor.dtype,
                               .shape = tensor.shape,
                               .data = file.bytes().data() + tensor.offset,
                               .bytes = tensor.bytes,
                               .fd = file.fd(),
                               .file_offset = tensor.offset,
                               .file = &file});
  }
  for (std::size_t i = 0; i < bundle.tensors_.size(); ++i)
    bundle.by_name_.emplace(bundle.tensors_[i].name, i);
  return bundle;
}

const TensorRef* WeightBundle::find(std::string_view name) const {
  const auto at = by_name_.find(name);
  return at == by_name_.end() ? nullptr : &tensors_[at->second];
}

Result<const TensorRef*> WeightBundle::require(std::string_view name) const {
  if (const TensorRef* tensor = find(name)) return tensor;
  return fail(ErrorCode::kNotFound, "{} binds no tensor \"{}\"; seal the bundle again for this program",
              path_.native(), printable(name));
}

Status WeightBundle::verify_shards() const {
  std::vector<const MappedFile*> files;
  for (const auto& shard : shards_) files.push_back(shard.get());
  DIF_ASSIGN(const std::vector<Digest> digests, digest_files(files));
  std::vector<std::string> problems;
  for (std::size_t i = 0; i < digests.size(); ++i)
    if (digests[i] != record_.shards[i].sha256)
      problems.push_back(fmt::format("shard {} changed after sealing: its SHA-256 is {}, expected {}",
                                     files[i]->path().native(), hex(digests[i]),
                                     hex(record_.shards[i].sha256)));
  if (problems.empty()) return ok();
  return tl::unexpected<Error>(problem_list(path_.native(), problems));
}

Status WeightBundle::check() const {
  for (const auto& shard : shards_) DIF_TRY(shard->check());
  return ok();
}

}  // namespace dif::io
