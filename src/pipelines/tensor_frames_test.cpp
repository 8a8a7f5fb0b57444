#include "pipelines/tensor_frames.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/float_convert.h"

namespace dif {
namespace {

using Levels = std::vector<std::uint8_t>;

TEST(TensorFrames, PlanesInMinusOneToOneBecomeInterleavedLevels) {
  // One row of two pixels: red -1 and 1, green 0 and 0.5, blue beyond both ends.
  const std::vector<float> planes = {-1, 1, 0, 0.5f, -3, 7};
  const io::HostTensor tensor = io::HostTensor::f32({3, 1, 2}, planes);
  const auto frames = TensorFrames::open(tensor);
  ASSERT_TRUE(frames) << frames.error().message;
  EXPECT_EQ(frames->count(), 1);
  const io::Image image = frames->frame(0);
  EXPECT_EQ(image.width, 2U);
  EXPECT_EQ(image.height, 1U);
  EXPECT_EQ(image.pixels, (Levels{0, 128, 0, 255, 191, 255}));
}

TEST(TensorFrames, EveryPixelOfAWideRowIsRoundedByItself) {
  constexpr std::int64_t kHeight = 3, kWidth = 517;
  std::vector<float> planes(3 * kHeight * kWidth);
  for (std::size_t i = 0; i < planes.size(); ++i) planes[i] = static_cast<float>(i * 31 % 300) / 125 - 1.2f;
  const io::HostTensor tensor = io::HostTensor::f32({3, kHeight, kWidth}, planes);
  const auto frames = TensorFrames::open(tensor);
  ASSERT_TRUE(frames) << frames.error().message;
  Levels expected(planes.size());
  for (std::size_t i = 0; i < planes.size(); ++i) {
    const std::size_t plane = kHeight * kWidth;
    const float unit = std::clamp(planes[i] * 0.5f + 0.5f, 0.0f, 1.0f);
    expected[i % plane * 3 + i / plane] = static_cast<std::uint8_t>(std::nearbyint(unit * 255.0f));
  }
  EXPECT_EQ(frames->frame(0).pixels, expected);
}

TEST(TensorFrames, FramesStandAlongTheFirstAxisInAnyFloatingFormat) {
  std::vector<std::uint16_t> bits(2 * 3 * 4, f32_to_bf16(-1));
  std::fill(bits.begin() + 12, bits.end(), f32_to_bf16(1));
  const io::HostTensor tensor = io::HostTensor::from<std::uint16_t>(DType::kBF16, {2, 3, 2, 2}, bits);
  const auto frames = TensorFrames::open(tensor);
  ASSERT_TRUE(frames);
  EXPECT_EQ(frames->count(), 2);
  EXPECT_EQ(frames->frame(0).pixels, Levels(12, 0));
  EXPECT_EQ(frames->frame(1).pixels, Levels(12, 255));
}

TEST(TensorFrames, LevelsAreTakenAsTheyAre) {
  Levels levels(2 * 1 * 2 * 3);
  for (std::size_t i = 0; i < levels.size(); ++i) levels[i] = static_cast<std::uint8_t>(i);
  const io::HostTensor tensor = io::HostTensor::from<std::uint8_t>(DType::kU8, {2, 1, 2, 3}, levels);
  const auto frames = TensorFrames::open(tensor);
  ASSERT_TRUE(frames);
  EXPECT_EQ(frames->frame(1).pixels, (Levels{6, 7, 8, 9, 10, 11}));
  EXPECT_EQ(frames->frame(1).width, 2U);
}

TEST(TensorFrames, RefusesWhatIsNoPicture) {
  const auto refused = [](const io::HostTensor& tensor) {
    const auto frames = TensorFrames::open(tensor);
    return frames ? std::string() : frames.error().message;
  };
  EXPECT_NE(refused({DType::kF32, {4, 8, 8}}).find("[3, H, W]"), std::string::npos);
  EXPECT_NE(refused({DType::kU8, {3, 8, 8}}).find("[H, W, 3]"), std::string::npos);
  EXPECT_NE(refused({DType::kF32, {8, 8}}), "");
  EXPECT_NE(refused({DType::kF32, {1, 1, 3, 8, 8}}), "");
  EXPECT_NE(refused({DType::kI32, {3, 8, 8}}).find("not i32"), std::string::npos);
  EXPECT_NE(refused({DType::kF32, {0, 3, 8, 8}}).find("no picture"), std::string::npos);
  EXPECT_NE(refused({DType::kF32, {3, 0, 8}}), "");
}

TEST(TensorFrames, ValuesThatAreNotFiniteNeedPermission) {
  std::vector<float> planes(12, 1);
  planes[5] = std::numeric_limits<float>::quiet_NaN();
  const io::HostTensor tensor = io::HostTensor::f32({3, 2, 2}, planes);
  const auto refused = TensorFrames::open(tensor);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kNonFinite);
  const auto allowed = TensorFrames::open(tensor, true);
  ASSERT_TRUE(allowed);
  EXPECT_EQ(allowed->frame(0).pixels[1 * 3 + 1], 0) << "green of the second pixel";
}

}  // namespace
}  // namespace dif
