#include "pipelines/picture_values.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstring>

#include "base/parallel.h"

namespace dif {

namespace {

constexpr std::size_t kRowsAtATime = 64, kMostPixelThreads = 4, kPixelsAtATime = 256;
constexpr std::int64_t kPositionsAtATime = 16;

/// The level 0 .. 255 of a value from -1 to 1.
std::uint32_t to_level(float value) {
  const float unit = value * 0.5f + 0.5f;
  // The comparison sends NaN (allowed only on request) to black.
  const float positive = unit > 0 ? unit : 0.0f;
  const float bounded = positive < 1 ? positive : 1.0f;
  // Adding 1.5 * 2^23 rounds to the nearest integer, ties to even, and leaves it in the lowest bits.
  return std::bit_cast<std::uint32_t>(bounded * 255.0f + 0x1.8p23f) & 0xff;
}

/// Bytes red, green, blue of each pixel, from three rows of values.
void to_bytes(const float* red, const float* green, const float* blue, std::size_t count, std::uint8_t* out) {
  std::array<std::uint32_t, kPixelsAtATime> pixels;
  for (std::size_t first = 0; first < count; first += kPixelsAtATime) {
    const std::size_t n = std::min(kPixelsAtATime, count - first);
    for (std::size_t i = 0; i < n; ++i)  // vectors, by the compiler
      pixels[i] =
          to_level(red[first + i]) | to_level(green[first + i]) << 8 | to_level(blue[first + i]) << 16;
    // Four bytes at a time: the next pixel goes over the last of them.
    std::uint8_t* const to = out + 3 * first;
    for (std::size_t i = 0; i + 1 < n; ++i) std::memcpy(to + 3 * i, &pixels[i], 4);
    std::memcpy(to + 3 * (n - 1), &pixels[n - 1], 3);
  }
}

}  // namespace

io::Image to_pixels(std::span<const float> image, std::int64_t width, std::int64_t height) {
  io::Image result(static_cast<std::uint32_t>(width), static_cast<std::uint32_t>(height), 3);
  const auto columns = static_cast<std::size_t>(width), rows = static_cast<std::size_t>(height);
  parallel_for((rows + kRowsAtATime - 1) / kRowsAtATime, kMostPixelThreads, [&](std::size_t part) {
    const float* const red = image.data();
    const float *const green = red + rows * columns, *const blue = green + rows * columns;
    for (std::size_t row = part * kRowsAtATime; row < std::min(rows, (part + 1) * kRowsAtATime); ++row) {
      const std::size_t at = row * columns;
      to_bytes(red + at, green + at, blue + at, columns, result.pixels.data() + 3 * at);
    }
  });
  return result;
}

std::vector<float> pack_latents(std::span<const float> noise, std::int64_t channels, std::int64_t positions) {
  std::vector<float> packed(noise.size());
  // Some positions at a time: their cache lines stay until all channels are in them.
  for (std::int64_t first = 0; first < positions; first += kPositionsAtATime)
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t p = first; p < std::min(positions, first + kPositionsAtATime); ++p)
        packed[static_cast<std::size_t>(p * channels + c)] =
            noise[static_cast<std::size_t>(c * positions + p)];
  return packed;
}

}  // namespace dif
