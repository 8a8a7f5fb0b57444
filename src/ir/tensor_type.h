#pragma once

#include <cstdint>

#include "base/format.h"
#include "dif/dtype.h"
#include "dif/shape.h"

namespace dif::ir {

/// What a value of a program is: element type and dimensions. Layout is row-major and dense.
struct TensorType {
  DType dtype = DType::kF32;
  Shape shape;

  int rank() const { return shape.rank(); }
  std::int64_t dim(int axis) const { return shape.dim(axis); }
  std::int64_t numel() const { return shape.numel(); }
  std::uint64_t bytes() const { return static_cast<std::uint64_t>(numel()) * dtype_size(dtype); }

  friend bool operator==(const TensorType&, const TensorType&) = default;
};

}  // namespace dif::ir

/// "f32[2, 512, 192]"
template <>
struct fmt::formatter<dif::ir::TensorType> : fmt::formatter<std::string> {
  auto format(const dif::ir::TensorType& type, fmt::format_context& context) const {
    return fmt::formatter<std::string>::format(fmt::format("{}{}", type.dtype, type.shape), context);
  }
};
