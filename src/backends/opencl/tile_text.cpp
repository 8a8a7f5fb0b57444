#include "backends/opencl/tile_text.h"

#include <fmt/format.h>

namespace dif::opencl {

namespace {

void replace_all(std::string& text, std::string_view name, int number) {
  const std::string digits = fmt::format("{}", number);
  for (std::size_t at = 0; (at = text.find(name, at)) != std::string::npos; at += digits.size())
    text.replace(at, name.size(), digits);
}

}  // namespace

std::string each_row(const Tile& tile, const std::string& text) {
  std::string result;
  for (int row = 0; row < tile.rows; ++row) {
    std::string line = text;
    replace_all(line, "@r@", row);
    result += line;
  }
  return result;
}

std::string each_sum(const Tile& tile, const std::string& text) {
  std::string result;
  for (int vector = 0; vector < tile.vectors; ++vector) {
    std::string line = text;
    replace_all(line, "@v@", vector);
    result += each_row(tile, line);
  }
  return result;
}

std::string multiply_add(const Tile& tile, const std::string& row, const std::string& column) {
  const Tile one_row = {1, tile.vectors};
  return each_sum(one_row, "      const float16 column@v@ = " + column + ";\n") +
         each_row(tile, "      const float row@r@ = " + row + ";\n") +
         each_sum(tile, "      s@r@_@v@ = fma((float16)(row@r@), column@v@, s@r@_@v@);\n");
}

}  // namespace dif::opencl
