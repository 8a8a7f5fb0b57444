#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/group_norm/group_norm.op.h"
#include "tests/conformance/normalisation.h"
#include "tests/conformance/op_test.h"

namespace dif::conformance {

using ops::kGroupNorm;

constexpr float kEps = 1e-6f;

TEST(GroupNormVerify, C1_RejectsRankBelowTwo) {
  EXPECT_TRUE(breaks("C1", kGroupNorm, {{DType::kF32, {4}}, {DType::kF32, {4}}, {DType::kF32, {4}}},
                     {kEps, std::int64_t{1}, false}));
}

TEST(GroupNormVerify, C2_RejectsGroupsThatDoNotDivideTheChannels) {
  const ir::TensorType x = {DType::kF32, {1, 4, 2}}, w = {DType::kF32, {4}};
  for (const std::int64_t groups : {3, 0, -2, 8})
    EXPECT_TRUE(breaks("C2", kGroupNorm, {x, w, w}, {kEps, groups, false})) << groups;
}

TEST(GroupNormVerify, C2_FindsTheChannelsLast) {
  const ir::TensorType w = {DType::kF32, {4}};
  EXPECT_TRUE(holds(kGroupNorm, {{DType::kF32, {1, 3, 5, 4}}, w, w}, {kEps, std::int64_t{2}, true}));
  EXPECT_TRUE(breaks("C2", kGroupNorm, {{DType::kF32, {1, 4, 5, 3}}, w, w}, {kEps, std::int64_t{2}, true}));
}

TEST(GroupNormVerify, C3_RejectsWeightAndBiasOfOtherWidth) {
  const ir::TensorType x = {DType::kF32, {1, 4, 2}}, good = {DType::kF32, {4}}, bad = {DType::kF32, {2}};
  EXPECT_TRUE(breaks("C3", kGroupNorm, {x, bad, good}, {kEps, std::int64_t{2}, false}));
  EXPECT_TRUE(breaks("C3", kGroupNorm, {x, good, bad}, {kEps, std::int64_t{2}, false}));
}

TEST(GroupNormVerify, C4_RejectsMixedAndOtherDtypes) {
  const ir::TensorType x = {DType::kBF16, {1, 4, 2}}, good = {DType::kBF16, {4}}, bad = {DType::kF32, {4}},
                       i = {DType::kI32, {4}};
  EXPECT_TRUE(breaks("C4", kGroupNorm, {x, bad, good}, {kEps, std::int64_t{2}, false}));
  EXPECT_TRUE(breaks("C4", kGroupNorm, {x, good, bad}, {kEps, std::int64_t{2}, false}));
  EXPECT_TRUE(breaks("C4", kGroupNorm, {{DType::kI32, {1, 4}}, i, i}, {kEps, std::int64_t{2}, false}));
}

TEST(GroupNormVerify, C5_RejectsNegativeOrInfiniteEps) {
  const ir::TensorType x = {DType::kF32, {1, 4, 2}}, w = {DType::kF32, {4}};
  EXPECT_TRUE(breaks("C5", kGroupNorm, {x, w, w}, {-1.0f, std::int64_t{2}, false}));
  EXPECT_TRUE(
      breaks("C5", kGroupNorm, {x, w, w}, {std::numeric_limits<float>::infinity(), std::int64_t{2}, false}));
}

TEST(GroupNormInfer, KeepsTheType) {
  const ir::TensorType x = {DType::kF16, {1, 4, 2}}, w = {DType::kF16, {4}};
  EXPECT_EQ(inferred(kGroupNorm, {x, w, w}, {kEps, std::int64_t{2}, false}), x);
}

TEST(GroupNormReference, NormalisesEachGroupOfChannels) {
  Sheet sheet;
  const ir::Value x = sheet.f32({1, 4, 2}, {1, 3, 5, 7, 0, 0, 0, 8});
  const ir::Value w = sheet.f32({4}, {1, 2, 1, 1}), bias = sheet.f32({4}, {0, 0, 0, 10});
  // Groups {1 3 5 7}: mean 4, variance 5; {0 0 0 8}: mean 2, variance 12.
  const double a = 1 / std::sqrt(5.0 + 1), b = 1 / std::sqrt(12.0 + 1);
  EXPECT_TRUE(near(sheet.run(ops::group_norm(sheet.builder, x, w, bias, 2, 1.0f)),
                   {-3 * a, -a, 2 * a, 6 * a, -2 * b, -2 * b, -2 * b + 10, 6 * b + 10}, 1e-5));
}

TEST(GroupNormReference, NormalisesChannelsLastToTheSameNumbers) {
  Sheet first, last;
  const ir::Value a = first.f32({1, 4, 2}, {1, 3, 5, 7, 0, 0, 0, 8});
  const ir::Value b = last.f32({1, 2, 4}, {1, 5, 0, 0, 3, 7, 0, 8});
  const auto weights = [](Sheet& sheet) {
    return std::pair(sheet.f32({4}, {1, 2, 1, 1}), sheet.f32({4}, {0, 0, 0, 10}));
  };
  const auto [w, bias] = weights(first);
  const auto [w_last, bias_last] = weights(last);
  const auto planes = first.run(ops::group_norm(first.builder, a, w, bias, 2, 1.0f));
  const auto pixels = last.run(ops::group_norm(last.builder, b, w_last, bias_last, 2, 1.0f, true));
  for (std::size_t c = 0; c < 4; ++c)
    for (std::size_t p = 0; p < 2; ++p) EXPECT_EQ(pixels[p * 4 + c], planes[c * 2 + p]) << c << " " << p;
}

namespace {

/// [N, C, P] as [N, P, C].
io::HostTensor with_channels_last(const io::HostTensor& x, const Shape& shape, std::int64_t channels) {
  const std::size_t size = dtype_size(x.dtype), n_channels = static_cast<std::size_t>(channels);
  const std::size_t positions =
      static_cast<std::size_t>(x.shape.numel() / std::max<std::int64_t>(1, x.shape.dim(0))) / n_channels;
  std::vector<std::byte> moved(x.data.size());
  for (std::size_t i = 0; i < x.data.size() / size; ++i) {
    const std::size_t image = i / (n_channels * positions), c = i / positions % n_channels, p = i % positions;
    std::copy_n(
        x.data.begin() + static_cast<std::ptrdiff_t>(i * size), size,
        moved.begin() + static_cast<std::ptrdiff_t>(((image * positions + p) * n_channels + c) * size));
  }
  return {x.dtype, shape, std::move(moved)};
}

Instance group_norm_instance(Random& random, DType dtype) {
  OneOp one(random);
  const std::int64_t groups = random.pick<std::int64_t>({1, 2, 3, 4, 8, 16, 32});
  const std::int64_t channels = groups * random.pick<std::int64_t>({1, 1, 2, 3, 4, 7});
  const Shape positions = random.shape(0, 3, 300);
  const auto with_channels = [&](bool last) {
    std::vector<std::int64_t> dims(positions.dims().begin(), positions.dims().end());
    dims.insert(last ? dims.end() : dims.begin(), channels);
    return dims;
  };
  std::vector<std::int64_t> dims = with_channels(false), last_dims = with_channels(true);
  const std::int64_t images = random.between(1, 3);
  dims.insert(dims.begin(), images);
  last_dims.insert(last_dims.begin(), images);
  const float eps = random.pick({1e-6f, 1e-5f, 1e-2f});
  io::HostTensor x =
      random.normal({dtype, Shape(dims)}, random.pick({0.01, 1.0, 30.0}), random.pick({0.0, 2.0}));
  const double scale = normalisation_scale(x, channels / groups * positions.numel(), eps);
  const bool channels_last = random.one_in(2);
  if (channels_last) x = with_channels_last(x, Shape(last_dims), channels);
  const ir::Value value = one.input(std::move(x));
  const ir::Value w = one.weight(random.uniform({dtype, {channels}}, -1, 1));
  const ir::Value bias = one.weight(random.uniform({dtype, {channels}}, -1, 1));
  return one.finish(ops::group_norm(one.builder, value, w, bias, groups, eps, channels_last), scale);
}

}  // namespace

/// As for layer_norm.
OpCases group_norm_cases() {
  return {kFloats, group_norm_instance, [](DType dtype) -> Tolerance {
            return {.relative = dtype == DType::kF32 ? 1e-6 : one_ulp(dtype), .of_scale = 1e-6};
          }};
}

}  // namespace dif::conformance
