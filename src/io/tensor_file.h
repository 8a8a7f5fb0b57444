#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string_view>

#include "dif/status.h"
#include "io/digest.h"
#include "io/host_tensor.h"
#include "io/tensor_ref.h"

namespace dif::io {

/// .diftensor (docs/file-formats.md): one tensor.
///
///     0   8       magic  89 44 49 46 54 0d 1a 0a ("\x89DIFT\r\x1a\n")
///     8   4       version, u32 little-endian: 1
///     12  1       dtype, the number of dif::DType
///     13  1       rank, 0 to 8
///     14  2       zero
///     16  8*rank  dimensions, i64 little-endian
///     ..          elements, little-endian, C order
///     ..  32      SHA-256 over everything before

/// Where the parts of a validated .diftensor are.
struct TensorFileView {
  DType dtype = DType::kF32;
  Shape shape;
  std::span<const std::byte> data;
  Digest digest{};  ///< the file's
};

/// Validates a whole .diftensor in memory. Errors (kInvalidInput, naming `source`): whatever a writer would
/// not write: other magic, version, dtype, rank, a negative or overflowing dimension, another length than the
/// shape says, a bool other than 0 and 1, a wrong digest.
Result<TensorFileView> parse_tensor_file(std::span<const std::byte> file, std::string_view source);

/// A validated .diftensor that stays mapped.
struct MappedTensor {
  std::unique_ptr<MappedFile> file;
  TensorRef tensor;  ///< name is empty
  Digest digest{};
};

Result<MappedTensor> map_tensor_file(const std::filesystem::path& path);
Result<HostTensor> read_tensor_file(const std::filesystem::path& path);

/// Writes atomically. Errors: kIo; kInvalidInput (size does not match, a bool other than 0 and 1).
Status write_tensor_file(const std::filesystem::path& path, DType dtype, const Shape& shape,
                         std::span<const std::byte> data);
Status write_tensor_file(const std::filesystem::path& path, const HostTensor& tensor);

/// A tensor that stays in its file, whatever the kind of that.
struct MappedOperand {
  std::shared_ptr<const void> owner;  ///< of what `tensor` points to
  TensorRef tensor;
};

/// A tensor given on a command line: FILE.diftensor, FILE.safetensors::NAME, or
/// FILE.safetensors.index.json::NAME.
Result<MappedOperand> map_tensor_operand(std::string_view operand);
Result<HostTensor> read_tensor_operand(std::string_view operand);

/// An owned copy, checked against the file having shrunk meanwhile.
Result<HostTensor> copy_tensor(const TensorRef& tensor);

}  // namespace dif::io
