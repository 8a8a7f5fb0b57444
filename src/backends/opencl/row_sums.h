#pragma once

#include <string>

#include "dif/dtype.h"

namespace dif::opencl {

/// OpenCL C for sums over `n` elements of a row stored as `dtype`, after the prelude:
///
///     float row_sum(global const S_bits* x, int n)
///     float row_squares(global const S_bits* x, int n, float mean)       sum of (x - mean)^2
///
/// Sixteen partial sums in f32 that start anew every 4096 elements, so that errors do not grow with the row;
/// the order depends on n alone.
std::string row_sums(DType dtype);

}  // namespace dif::opencl
