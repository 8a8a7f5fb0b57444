#include "pipelines/tensor_frames.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "pipelines/picture_values.h"

namespace dif {

namespace {

constexpr std::int64_t kMaxSide = 1 << 16;

bool holds_levels(DType dtype) {
  return dtype == DType::kU8;
}

std::vector<float> frame_values(const io::HostTensor& tensor, std::int64_t index, std::int64_t elements) {
  const std::size_t size = dtype_size(tensor.dtype) * static_cast<std::size_t>(elements);
  std::vector<float> values(static_cast<std::size_t>(elements));
  io::convert_to_f32(tensor.dtype, tensor.bytes().subspan(static_cast<std::size_t>(index) * size, size),
                     values);
  return values;
}

}  // namespace

Result<TensorFrames> TensorFrames::open(const io::HostTensor& tensor, bool allow_nonfinite) {
  const Shape& shape = tensor.shape;
  const bool levels = holds_levels(tensor.dtype);
  if (!levels && !is_floating(tensor.dtype))
    return invalid_input("a picture is a floating tensor in [-1, 1] or u8, not {}", tensor.dtype);
  const int channel_axis = levels ? -1 : -3;
  if ((shape.rank() != 3 && shape.rank() != 4) || shape.dim(channel_axis) != 3)
    return invalid_input("{} {} is no picture; expected is {}", tensor.dtype, shape,
                         levels ? "u8 [H, W, 3] or [T, H, W, 3]" : "[3, H, W] or [T, 3, H, W]");
  TensorFrames frames(tensor);
  frames.count_ = shape.rank() == 4 ? shape.dim(0) : 1;
  frames.height_ = shape.dim(levels ? -3 : -2);
  frames.width_ = shape.dim(levels ? -2 : -1);
  if (frames.count_ == 0 || frames.height_ == 0 || frames.width_ == 0 || frames.height_ > kMaxSide ||
      frames.width_ > kMaxSide)
    return invalid_input("{} {} holds no picture of 1 to {} pixels a side", tensor.dtype, shape, kMaxSide);
  if (levels || allow_nonfinite) return frames;
  const std::int64_t elements = 3 * frames.width_ * frames.height_;
  for (std::int64_t i = 0; i < frames.count_; ++i) {
    const std::vector<float> values = frame_values(tensor, i, elements);
    const auto bad = std::ranges::count_if(values, [](float value) { return !std::isfinite(value); });
    if (bad != 0)
      return fail(ErrorCode::kNonFinite, "frame {} holds {} values that are NaN or infinite", i, bad);
  }
  return frames;
}

io::Image TensorFrames::frame(std::int64_t index) const {
  const std::int64_t elements = 3 * width_ * height_;
  if (!holds_levels(tensor_->dtype))
    return to_pixels(frame_values(*tensor_, index, elements), width_, height_);
  io::Image image(static_cast<std::uint32_t>(width_), static_cast<std::uint32_t>(height_), 3);
  std::memcpy(image.pixels.data(), tensor_->data.data() + index * elements, image.pixels.size());
  return image;
}

}  // namespace dif
