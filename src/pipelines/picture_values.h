#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "io/image.h"

namespace dif {

/// Pixels from a decoded f32 [1, 3, height, width] in [-1, 1]: round(255 clamp(x / 2 + 1 / 2)), as diffusers
/// rounds.
io::Image to_pixels(std::span<const float> image, std::int64_t width, std::int64_t height);

/// Noise as drawn, [1, C, rows, columns], to tokens [1, rows * columns, C].
std::vector<float> pack_latents(std::span<const float> noise, std::int64_t channels, std::int64_t positions);

}  // namespace dif
