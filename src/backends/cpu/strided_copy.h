#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "dif/shape.h"

namespace dif::cpu {

/// y = x with its axes in the order of `perm`: prepared once for a shape. Neighbouring axes that stay
/// neighbours are one axis; what is left is either runs to copy, or planes to transpose in tiles.
class StridedCopy {
 public:
  StridedCopy(const Shape& x, const std::vector<std::int64_t>& perm, std::size_t element_bytes);
  /// `x` and `y` do not overlap.
  void run(const std::byte* x, std::byte* y) const;

 private:
  struct Axis {
    std::int64_t size, x, y;  ///< strides in elements
  };

  void copy_runs(const std::byte* x, std::byte* y) const;
  void transpose_planes(const std::byte* x, std::byte* y) const;

  std::int64_t element_bytes_ = 1;
  std::int64_t count_ = 0;
  std::vector<Axis> outer_;        ///< every axis but run_ or the plane, slowest first
  std::int64_t run_ = 1;           ///< elements that are contiguous in both, 0 when planes are transposed
  Axis rows_ = {}, columns_ = {};  ///< of a plane: rows_.y == 1, columns_.x == 1
};

/// Copies n_rows rows of `bytes` each, from x + i * x_step to y + i * y_step, spread over the threads.
void copy_rows(const std::byte* x, std::int64_t x_step, std::byte* y, std::int64_t y_step,
               std::int64_t n_rows, std::int64_t bytes);

}  // namespace dif::cpu
