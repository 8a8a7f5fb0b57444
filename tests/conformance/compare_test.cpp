#include "tests/conformance/compare.h"

#include <gtest/gtest.h>

#include <limits>

namespace dif::conformance {

namespace {

io::HostTensor f32(std::vector<float> values) {
  return io::HostTensor::f32({static_cast<std::int64_t>(values.size())}, values);
}

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

}  // namespace

TEST(ConformanceCompare, WantsTheSameBitsWithoutATolerance) {
  EXPECT_TRUE(compare(f32({1, kNaN, kInf}), f32({1, -kNaN, kInf}), {}, 1).ok());
  EXPECT_FALSE(compare(f32({0.0f}), f32({-0.0f}), {}, 1).ok());
  EXPECT_FALSE(compare(f32({1}), f32({1.0000001f}), {}, 1).ok());
}

TEST(ConformanceCompare, AllowsRelativeAndScaledDifferences) {
  EXPECT_TRUE(compare(f32({101}), f32({100}), {.relative = 0.011}, 1).ok());
  EXPECT_FALSE(compare(f32({101}), f32({100}), {.relative = 0.009}, 1).ok());
  EXPECT_TRUE(compare(f32({101}), f32({100}), {.of_scale = 0.11}, 10).ok());
  EXPECT_FALSE(compare(f32({101}), f32({100}), {.of_scale = 0.09}, 10).ok());
}

TEST(ConformanceCompare, NeverAllowsNaNOrInfinityForANumber) {
  for (const float wrong : {kNaN, kInf, -kInf}) {
    EXPECT_FALSE(compare(f32({wrong}), f32({1}), {.relative = 1e9, .of_scale = 1e9}, 1).ok());
    EXPECT_FALSE(compare(f32({1}), f32({wrong}), {.relative = 1e9, .of_scale = 1e9}, 1).ok());
  }
}

TEST(ConformanceCompare, NamesTheWorstElement) {
  const Difference difference = compare(f32({1, 5, 3}), f32({1, 2, 2}), {.relative = 0.1}, 1);
  EXPECT_NE(difference.text.find("element 1 of 3 is 5, expected is 2"), std::string::npos) << difference.text;
}

TEST(ConformanceCompare, ComparesOtherDtypesByTheirBits) {
  const std::vector<std::int32_t> a = {1 << 30}, b = {(1 << 30) + 1};
  const auto x = io::HostTensor::from<std::int32_t>(DType::kI32, {1}, a),
             y = io::HostTensor::from<std::int32_t>(DType::kI32, {1}, b);
  EXPECT_FALSE(compare(x, y, {.relative = 1}, 1).ok());
  EXPECT_TRUE(compare(x, x, {}, 1).ok());
}

}  // namespace dif::conformance
