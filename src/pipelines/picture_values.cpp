#include "pipelines/picture_values.h"

#include <algorithm>
#include <bit>
#include <cstddef>

#include "base/parallel.h"

namespace dif {

namespace {

constexpr std::size_t kRowsAtATime = 64, kMostPixelThreads = 8;
constexpr std::int64_t kPositionsAtATime = 16;

/// Levels 0 .. 255 of values from -1 to 1, in a loop that the compiler turns into vectors.
void to_levels(const float* values, std::size_t count, std::uint8_t* levels) {
  for (std::size_t i = 0; i < count; ++i) {
    const float unit = values[i] * 0.5f + 0.5f;
    // The comparison sends NaN (allowed only on request) to black.
    const float level = unit > 0 ? std::min(unit, 1.0f) * 255.0f : 0.0f;
    // Adding 1.5 * 2^23 rounds to the nearest integer, ties to even, and leaves it in the lowest bits.
    levels[i] = static_cast<std::uint8_t>(std::bit_cast<std::uint32_t>(level + 0x1.8p23f));
  }
}

}  // namespace

io::Image to_pixels(std::span<const float> image, std::int64_t width, std::int64_t height) {
  io::Image result(static_cast<std::uint32_t>(width), static_cast<std::uint32_t>(height), 3);
  const auto columns = static_cast<std::size_t>(width), rows = static_cast<std::size_t>(height);
  parallel_for((rows + kRowsAtATime - 1) / kRowsAtATime, kMostPixelThreads, [&](std::size_t part) {
    std::vector<std::uint8_t> line(3 * columns);
    for (std::size_t row = part * kRowsAtATime; row < std::min(rows, (part + 1) * kRowsAtATime); ++row) {
      for (std::size_t c = 0; c < 3; ++c)
        to_levels(image.data() + (c * rows + row) * columns, columns, line.data() + c * columns);
      std::uint8_t* const out = result.pixels.data() + row * columns * 3;
      for (std::size_t i = 0; i < columns; ++i)
        for (std::size_t c = 0; c < 3; ++c) out[i * 3 + c] = line[c * columns + i];
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
