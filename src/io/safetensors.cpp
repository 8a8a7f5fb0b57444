#include "io/safetensors.h"

#include <limits>
#include <optional>
#include <utility>

#include "base/error.h"
#include "io/printable.h"
#include "io/safetensors_dtypes.h"

namespace dif::io {

namespace {

/// The shape of an entry, or nothing when Shape cannot hold it.
std::optional<Shape> usable_shape(const SafetensorsEntry& entry) {
  if (entry.shape.size() > Shape::kMaxRank) return std::nullopt;
  std::vector<std::int64_t> dims;
  for (const std::uint64_t dim : entry.shape) {
    if (dim > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return std::nullopt;
    dims.push_back(static_cast<std::int64_t>(dim));
  }
  Shape shape{std::span<const std::int64_t>(dims)};
  if (!shape.checked_numel()) return std::nullopt;
  return shape;
}

}  // namespace

Result<SafetensorsFile> open_safetensors(const std::filesystem::path& path) {
  DIF_ASSIGN(MappedFile mapped, MappedFile::open(path));
  DIF_ASSIGN(SafetensorsHeader header, parse_safetensors(mapped.bytes(), path.native()));
  DIF_TRY(mapped.check());

  SafetensorsFile file;
  file.file_ = std::make_unique<MappedFile>(std::move(mapped));
  file.metadata_ = std::move(header.metadata);
  file.tensors_.reserve(header.entries.size());
  for (SafetensorsEntry& entry : header.entries) {
    const std::optional<DType> dtype = find_safetensors_dtype(entry.dtype)->dtype;
    const std::optional<Shape> shape = usable_shape(entry);
    if (!dtype || !shape) {
      file.unusable_.push_back(std::move(entry));
      continue;
    }
    const std::uint64_t offset = header.data_offset + entry.begin;
    file.tensors_.push_back({.name = std::move(entry.name),
                             .dtype = *dtype,
                             .shape = *shape,
                             .data = file.file_->bytes().data() + offset,
                             .bytes = entry.end - entry.begin,
                             .fd = file.file_->fd(),
                             .file_offset = offset,
                             .file = file.file_.get()});
  }
  file.by_name_.reserve(file.tensors_.size());
  for (std::size_t i = 0; i < file.tensors_.size(); ++i) file.by_name_.emplace(file.tensors_[i].name, i);
  return file;
}

const TensorRef* SafetensorsFile::find(std::string_view name) const {
  const auto at = by_name_.find(name);
  return at == by_name_.end() ? nullptr : &tensors_[at->second];
}

Result<const TensorRef*> SafetensorsFile::require(std::string_view name) const {
  if (const TensorRef* tensor = find(name)) return tensor;
  for (const SafetensorsEntry& entry : unusable_)
    if (entry.name == name)
      return invalid_input("{}: tensor \"{}\" is {} of rank {}, which this program cannot use",
                           file_->path().native(), printable(name), entry.dtype, entry.shape.size());
  return fail(ErrorCode::kNotFound,
              "{} has no tensor \"{}\"; `dif weights inspect-shard` lists its {} tensors",
              file_->path().native(), printable(name), tensors_.size() + unusable_.size());
}

}  // namespace dif::io
