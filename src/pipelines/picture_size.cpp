#include "pipelines/picture_size.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "frontends/family.h"

namespace dif {

namespace {

constexpr auto kFitNames = std::to_array<std::pair<Fit, std::string_view>>(
    {{Fit::kExact, "exact"}, {Fit::kRound, "round"}, {Fit::kPad, "pad"}});

Result<std::int64_t> fit_side(std::string_view name, std::int64_t side, std::int64_t multiple, Fit fit) {
  const std::int64_t largest = frontends::kMaxPixels / multiple * multiple;
  if (side <= 0 || side > largest)
    return invalid_input("{} {}: expected a multiple of {} from {} to {}", name, side, multiple, multiple,
                         largest);
  if (side % multiple == 0) return side;
  const std::int64_t below = side / multiple * multiple;
  if (fit == Fit::kPad) return below + multiple;
  if (fit == Fit::kRound)
    return below == 0 || side - below >= multiple - (side - below) ? below + multiple : below;
  if (below == 0)
    return invalid_input("{} {}: expected a multiple of {}; use {}, or --fit pad", name, side, multiple,
                         multiple);
  return invalid_input(
      "{} {}: expected a multiple of {}; the nearest are {} and {}, or use --fit round or pad", name, side,
      multiple, below, below + multiple);
}

}  // namespace

std::string_view fit_name(Fit fit) {
  return std::ranges::find(kFitNames, fit, &std::pair<Fit, std::string_view>::first)->second;
}

std::optional<Fit> fit_from_name(std::string_view name) {
  const auto found = std::ranges::find(kFitNames, name, &std::pair<Fit, std::string_view>::second);
  return found == kFitNames.end() ? std::nullopt : std::optional(found->first);
}

Result<PictureSize> fit_size(std::int64_t width, std::int64_t height, std::int64_t multiple, Fit fit) {
  PictureSize size;
  DIF_ASSIGN(size.drawn_width, fit_side("width", width, multiple, fit));
  DIF_ASSIGN(size.drawn_height, fit_side("height", height, multiple, fit));
  size.width = fit == Fit::kPad ? width : size.drawn_width;
  size.height = fit == Fit::kPad ? height : size.drawn_height;
  return size;
}

io::Image crop_to_middle(const io::Image& image, std::uint32_t width, std::uint32_t height) {
  DIF_CHECK(width <= image.width && height <= image.height);
  if (width == image.width && height == image.height) return image;
  io::Image result(width, height, image.channels);
  const auto channels = static_cast<std::size_t>(image.channels);
  const std::size_t left = (image.width - width) / 2, top = (image.height - height) / 2;
  for (std::size_t row = 0; row < height; ++row)
    std::memcpy(result.pixels.data() + row * width * channels,
                image.pixels.data() + ((top + row) * image.width + left) * channels, width * channels);
  return result;
}

}  // namespace dif
