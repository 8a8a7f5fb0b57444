#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "dif/shape.h"

namespace dif::runtime {

/// Nested loops over elements: sizes outermost first, and for each tensor its elements per step along each
/// axis. At least one axis.
struct Axes {
  std::vector<std::int64_t> sizes;
  std::vector<std::vector<std::int64_t>> strides;  ///< [tensor][axis]

  std::int64_t inner() const { return sizes.back(); }
  std::int64_t inner_stride(std::size_t tensor) const { return strides[tensor].back(); }
  /// Product of all sizes but the innermost.
  std::int64_t rows() const;
};

/// The fewest axes that visit the elements of `shape` in row-major order: axes of one element go, and
/// neighbours join where every tensor steps through them evenly.
Axes collapse(const Shape& shape, const std::vector<std::vector<std::int64_t>>& strides);

/// Elements of one operand that go to the result: loops over `shape`, with a start and strides in elements on
/// both sides.
struct CopyPiece {
  std::size_t operand = 0;
  Shape shape;
  std::int64_t from = 0, to = 0;
  std::vector<std::int64_t> from_strides, to_strides;
};

/// Row-major strides: elements per step along each axis.
std::vector<std::int64_t> dense_strides(const Shape& shape);
/// Strides of `from` seen as `to`: 0 along the axes that repeat. Pre: from broadcasts to `to`.
std::vector<std::int64_t> broadcast_strides(const Shape& from, const Shape& to);

}  // namespace dif::runtime
