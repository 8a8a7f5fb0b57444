#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "dif/dtype.h"
#include "dif/shape.h"
#include "io/mapped_file.h"

namespace dif::io {

/// A tensor that lies in a mapped file. Valid while the object that gave it (SafetensorsFile, Checkpoint,
/// WeightBundle, MappedTensor) lives. `data` has no promised alignment beyond one byte.
struct TensorRef {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  const std::byte* data = nullptr;   ///< little-endian elements, C order
  std::uint64_t bytes = 0;           ///< shape.numel() * dtype_size(dtype)
  int fd = -1;                       ///< of the file, for O_DIRECT or pread users
  std::uint64_t file_offset = 0;     ///< of `data` in that file
  const MappedFile* file = nullptr;  ///< check() it after use

  std::span<const std::byte> span() const { return {data, static_cast<std::size_t>(bytes)}; }
};

}  // namespace dif::io
