#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dif::io {

/// 8-bit pixels, rows from the top, channels interleaved: 1 grey, 3 RGB, 4 RGBA (not premultiplied).
struct Image {
  std::uint32_t width = 0, height = 0;
  int channels = 3;
  std::vector<std::uint8_t> pixels;  ///< height * width * channels

  Image() = default;
  /// Black.
  Image(std::uint32_t width, std::uint32_t height, int channels)
      : width(width),
        height(height),
        channels(channels),
        pixels(static_cast<std::size_t>(width) * height * static_cast<std::size_t>(channels)) {}
};

}  // namespace dif::io
