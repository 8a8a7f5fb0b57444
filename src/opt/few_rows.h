#pragma once

#include <cstdint>

#include "ir/op_def.h"

namespace dif::opt {

/// Up to so many rows a product takes as long as reading its weights: joining products saves calls, and
/// slices of the result are small. Above, a slice of the columns is a copy of the rows, which costs a tenth
/// of the product and more where the model is narrow.
inline constexpr std::int64_t kFewRows = 16;

/// Rows of a linear's x.
inline std::int64_t rows_of_linear(const ir::OpView& linear) {
  const std::int64_t width = linear.in(0).dim(-1);
  return width == 0 ? 0 : linear.in(0).numel() / width;
}

}  // namespace dif::opt
