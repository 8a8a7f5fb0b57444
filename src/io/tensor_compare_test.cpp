#include "io/tensor_compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/float_convert.h"

namespace dif::io {
namespace {

using Floats = std::vector<float>;
constexpr float kInf = std::numeric_limits<float>::infinity();

HostTensor tensor(const Shape& shape, const Floats& values) {
  return HostTensor::f32(shape, values);
}

TensorComparison compare(const HostTensor& reference, const HostTensor& actual, bool flatten = false) {
  auto result = compare_tensors(reference, actual, flatten);
  EXPECT_TRUE(result) << result.error().message;
  return result ? *result : TensorComparison{};
}

TEST(TensorCompare, FiguresAreThoseOfAHandCalculation) {
  const TensorComparison c = compare(tensor({2, 2}, {3, 4, 0, 0}), tensor({2, 2}, {3, 4, 0, 5}));
  EXPECT_EQ(c.elements, 4);
  EXPECT_EQ(c.differing, 1);
  EXPECT_DOUBLE_EQ(c.cosine, 25 / (5 * std::sqrt(50.0)));
  EXPECT_DOUBLE_EQ(c.rel_l2, 1);
  EXPECT_DOUBLE_EQ(c.norm_ratio, std::sqrt(2.0));
  EXPECT_EQ(c.max_abs, 5);
  EXPECT_EQ(c.worst, (std::vector<std::int64_t>{1, 1}));
  EXPECT_EQ(c.worst_reference, 0);
  EXPECT_EQ(c.worst_actual, 5);
}

TEST(TensorCompare, EqualTensorsAreAtTheIdealValues) {
  const HostTensor a = tensor({3}, {0.1f, -2, 1e-20f});
  const TensorComparison c = compare(a, a);
  EXPECT_EQ(c.differing, 0);
  EXPECT_DOUBLE_EQ(c.cosine, 1);
  EXPECT_EQ(c.rel_l2, 0);
  EXPECT_EQ(c.norm_ratio, 1);
  EXPECT_EQ(c.max_abs, 0);
}

TEST(TensorCompare, ZeroNormsHaveADefinedAnswer) {
  const HostTensor zero = tensor({2}, {0, 0}), one = tensor({2}, {1, 0});
  EXPECT_EQ(compare(zero, zero).cosine, 1);
  EXPECT_EQ(compare(zero, zero).norm_ratio, 1);
  EXPECT_EQ(compare(zero, one).cosine, 0);
  EXPECT_EQ(compare(zero, one).rel_l2, std::numeric_limits<double>::infinity());
  EXPECT_EQ(compare(one, zero).cosine, 0);
  EXPECT_EQ(compare(one, zero).norm_ratio, 0);
  EXPECT_EQ(compare(tensor({0}, {}), tensor({0}, {})).elements, 0);
}

TEST(TensorCompare, ComparesValuesAcrossDtypes) {
  const std::vector<std::uint16_t> bits = {f32_to_bf16(1.5f), f32_to_bf16(-2)};
  const HostTensor half = HostTensor::from<std::uint16_t>(DType::kBF16, {2}, bits);
  EXPECT_EQ(compare(tensor({2}, {1.5f, -2}), half).differing, 0);
  const std::vector<std::int64_t> big = {(std::int64_t{1} << 40) + 1, 7};
  const std::vector<double> same = {static_cast<double>(big[0]), 7};
  EXPECT_EQ(compare(HostTensor::from<std::int64_t>(DType::kI64, {2}, big),
                    HostTensor::from<double>(DType::kF64, {2}, same))
                .differing,
            0)
      << "f32 would lose the last digit";
}

TEST(TensorCompare, LocatesTheWorstElementPastTheFirstChunk) {
  Floats reference(3 * 5000, 1.0f), actual = reference;
  actual[12345] += 0.25f;
  const TensorComparison c = compare(tensor({3, 5000}, reference), tensor({3, 5000}, actual));
  EXPECT_EQ(c.worst, (std::vector<std::int64_t>{2, 2345}));
  EXPECT_EQ(c.max_abs, 0.25);
  EXPECT_EQ(compare_f32(reference, actual).worst, (std::vector<std::int64_t>{12345}));
}

TEST(TensorCompare, OtherShapesNeedFlatten) {
  const HostTensor a = tensor({2, 3}, Floats(6, 1)), b = tensor({6}, Floats(6, 1)),
                   c = tensor({5}, Floats(5));
  const auto refused = compare_tensors(a, b);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("[2, 3]"), std::string::npos) << refused.error().message;
  EXPECT_NE(refused.error().message.find("--flatten"), std::string::npos);
  EXPECT_EQ(compare(a, b, true).differing, 0);
  EXPECT_FALSE(compare_tensors(a, c, true));
}

TEST(ComparisonBars, AnAbsentBarIsNotApplied) {
  const TensorComparison c = compare(tensor({2}, {1, 2}), tensor({2}, {-5, 100}));
  EXPECT_TRUE(broken_bars(c, {}).empty());
}

TEST(ComparisonBars, EachBarIsJudgedAloneAndIncludesItsOwnValue) {
  TensorComparison c;
  c.cosine = 0.9;
  c.rel_l2 = 0.1;
  c.norm_ratio = 1.5;
  c.max_abs = 0.25;
  EXPECT_TRUE(broken_bars(c, {0.9, 0.1, 1.5, 1.5, 0.25}).empty());
  EXPECT_EQ(broken_bars(c, {.min_cosine = 0.91}), std::vector<std::string>{"cos 0.9 is below 0.91"});
  EXPECT_EQ(broken_bars(c, {.max_rel_l2 = 0.09}), std::vector<std::string>{"rel_l2 0.1 is above 0.09"});
  EXPECT_EQ(broken_bars(c, {.min_norm_ratio = 1.6}), std::vector<std::string>{"norm_ratio 1.5 is below 1.6"});
  EXPECT_EQ(broken_bars(c, {.max_norm_ratio = 1.4}), std::vector<std::string>{"norm_ratio 1.5 is above 1.4"});
  EXPECT_EQ(broken_bars(c, {.max_abs = 0.2}), std::vector<std::string>{"max_abs 0.25 is above 0.2"});
}

TEST(ComparisonBars, WhatIsNotFiniteNeverPasses) {
  for (const float bad : {kInf, -kInf, std::numeric_limits<float>::quiet_NaN()}) {
    const HostTensor broken = tensor({2}, {1, bad}), good = tensor({2}, {1, 1});
    EXPECT_EQ(broken_bars(compare(good, broken), {}).size(), 1U);
    EXPECT_EQ(broken_bars(compare(broken, good), {}).size(), 1U);
    EXPECT_EQ(broken_bars(compare(broken, broken), {}).size(), 1U) << "not even when both agree";
    EXPECT_EQ(compare(good, broken).actual_nonfinite, 1);
    EXPECT_EQ(compare(good, broken).max_abs, 0) << "the other elements are equal";
  }
}

}  // namespace
}  // namespace dif::io
