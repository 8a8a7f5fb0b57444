#pragma once

#include <string>

namespace dif::opencl {

/// The inner products of matrix kernels as unrolled text: a tile of rows x 16 * vectors sums in registers,
/// named s0_0 (row 0, first 16 columns), s0_1, s1_0 ... A processor's work-item owns a whole tile: PoCL makes
/// SIMD registers of float16, while its vectoriser does not see through the loops of several work-items.
struct Tile {
  int rows = 6;
  int vectors = 2;

  int columns() const { return 16 * vectors; }
};

/// `text` for each row, with @r@ replaced.
std::string each_row(const Tile& tile, const std::string& text);
/// `text` for each row and vector, with @r@ and @v@ replaced.
std::string each_sum(const Tile& tile, const std::string& text);
/// Adds row factor times column vector to every sum: `row` is the factor of row @r@, `column` the float16 of
/// vector @v@, both expressions.
std::string multiply_add(const Tile& tile, const std::string& row, const std::string& column);

}  // namespace dif::opencl
