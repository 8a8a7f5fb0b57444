#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "dif/dtype.h"
#include "dif/shape.h"
#include "dif/status.h"
#include "io/atomic_file.h"
#include "io/mapped_file.h"
#include "io/tensor_ref.h"

namespace dif::io {

/// One row of a safetensors header, as it stands in the file.
struct SafetensorsEntry {
  std::string name;
  std::string dtype;  ///< the file's word: "BF16", "F8_E8M0", ...
  std::vector<std::uint64_t> shape;
  std::uint64_t begin = 0, end = 0;  ///< bytes from the start of the data section
};

struct SafetensorsHeader {
  std::uint64_t data_offset = 0;          ///< of the data section in the file
  std::vector<SafetensorsEntry> entries;  ///< by begin, then end, then name
  std::map<std::string, std::string> metadata;
};

/// Validates everything that a safetensors file can get wrong: length prefix, JSON, names, dtypes, shapes,
/// and that the ranges cover the data section exactly. `file` is the whole file; `source` names it in
/// messages. The verdict is that of the `safetensors` package 0.8, except that a name given twice is always
/// refused.
Result<SafetensorsHeader> parse_safetensors(std::span<const std::byte> file, std::string_view source);

/// A mapped, completely validated safetensors file.
class SafetensorsFile {
 public:
  /// Tensors in file order.
  const std::vector<TensorRef>& tensors() const { return tensors_; }
  /// Nothing when there is no such tensor.
  const TensorRef* find(std::string_view name) const;
  /// The same with an error that names the file, and the reason when the tensor is there in a dtype or rank
  /// that this program cannot use.
  Result<const TensorRef*> require(std::string_view name) const;
  /// Legal tensors of a dtype (F4, F8_E8M0, C64, ...) or rank (> 8) that TensorRef cannot hold: not in
  /// tensors().
  const std::vector<SafetensorsEntry>& unusable() const { return unusable_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const MappedFile& file() const { return *file_; }

 private:
  friend Result<SafetensorsFile> open_safetensors(const std::filesystem::path& path);
  SafetensorsFile() = default;

  std::unique_ptr<MappedFile> file_;  // on the heap: TensorRefs point to it
  std::vector<TensorRef> tensors_;
  std::vector<SafetensorsEntry> unusable_;
  std::map<std::string, std::string> metadata_;
  std::unordered_map<std::string_view, std::size_t> by_name_;  // views of names in tensors_
};

/// Maps `path`. Errors: kNotFound; kIo; kInvalidInput (whatever parse_safetensors refuses).
Result<SafetensorsFile> open_safetensors(const std::filesystem::path& path);

/// A tensor for a writer: its bytes (little-endian, C order), or a callback that writes exactly that many
/// bytes, for tensors that are made while they are written.
struct TensorToWrite {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  std::span<const std::byte> data = {};
  std::function<Status(AtomicFile&)> produce = {};  ///< used instead of `data` when set
};

/// Writes a safetensors file atomically. The result depends on the tensors and metadata only: widest dtype
/// first, then by name; the header is padded with spaces so that the data starts at a multiple of 8. Errors:
/// kIo; kInvalidInput (a name twice, "__metadata__", not UTF-8, or data of another size than shape says).
Status write_safetensors(const std::filesystem::path& path, const std::vector<TensorToWrite>& tensors,
                         const std::map<std::string, std::string>& metadata = {});

/// The format's word for a dtype ("BF16").
std::string_view safetensors_dtype_name(DType dtype);

}  // namespace dif::io
