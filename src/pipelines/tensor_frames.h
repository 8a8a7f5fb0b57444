#pragma once

#include <cstdint>

#include "dif/status.h"
#include "io/host_tensor.h"
#include "io/image.h"

namespace dif {

/// The pictures in a decoded tensor, by its dtype and shape:
///   floating [3, H, W], [1, 3, H, W] or [T, 3, H, W], values in [-1, 1] rounded as to_pixels does;
///   u8       [H, W, 3] or [T, H, W, 3], levels as they are.
class TensorFrames {
 public:
  /// `tensor` outlives the result. Errors: InvalidInput (another dtype or shape); NonFinite, unless
  /// `allow_nonfinite` (NaN becomes black, infinity the nearest level).
  static Result<TensorFrames> open(const io::HostTensor& tensor, bool allow_nonfinite = false);

  std::int64_t count() const { return count_; }
  std::int64_t width() const { return width_; }
  std::int64_t height() const { return height_; }
  /// RGB. Pre: 0 <= index < count().
  io::Image frame(std::int64_t index) const;

 private:
  explicit TensorFrames(const io::HostTensor& tensor) : tensor_(&tensor) {}

  const io::HostTensor* tensor_;
  std::int64_t count_ = 0;
  std::int64_t width_ = 0;
  std::int64_t height_ = 0;
};

}  // namespace dif
