#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "dif/status.h"
#include "io/image.h"

namespace dif {

/// What to do with a size that is no multiple of what the model draws.
enum class Fit {
  kExact,  ///< refuse it and name the nearest sizes
  kRound,  ///< the nearest legal size, of two the larger
  kPad,    ///< draw the next larger legal size and cut the picture out of its middle
};

std::string_view fit_name(Fit fit);  ///< exact, round, pad
std::optional<Fit> fit_from_name(std::string_view name);

/// Sizes in pixels.
struct PictureSize {
  std::int64_t width = 0, height = 0;              ///< of the picture
  std::int64_t drawn_width = 0, drawn_height = 0;  ///< what the model draws: multiples, never smaller
};

/// Errors: InvalidInput when a side is not from `multiple` (kRound, kPad: from 1) to frontends::kMaxPixels,
/// or is off the grid and `fit` is kExact: names the nearest legal sizes.
Result<PictureSize> fit_size(std::int64_t width, std::int64_t height, std::int64_t multiple, Fit fit);

/// The middle of a picture. Pre: not larger than the picture.
io::Image crop_to_middle(const io::Image& image, std::uint32_t width, std::uint32_t height);

}  // namespace dif
