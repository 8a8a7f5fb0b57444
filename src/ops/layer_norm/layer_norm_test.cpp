#include <cmath>
#include <limits>

#include "ops/layer_norm/layer_norm.op.h"
#include "tests/conformance/normalisation.h"
#include "tests/conformance/op_test.h"

namespace dif::conformance {

using ops::kLayerNorm;

TEST(LayerNormVerify, C1_RejectsScalarsAndEmptyRows) {
  EXPECT_TRUE(breaks("C1", kLayerNorm, {{DType::kF32, {}}}));
  EXPECT_TRUE(breaks("C1", kLayerNorm, {{DType::kF32, {4, 0}}}));
}

TEST(LayerNormVerify, C2_RejectsWeightAndBiasOfOtherWidth) {
  const ir::TensorType x = {DType::kF32, {4, 8}}, good = {DType::kF32, {8}}, bad = {DType::kF32, {7}};
  EXPECT_TRUE(breaks("C2", kLayerNorm, {x, bad}));
  EXPECT_TRUE(breaks("C2", kLayerNorm, {x, good, bad}));
}

TEST(LayerNormVerify, C3_RejectsMixedAndOtherDtypes) {
  const ir::TensorType x = {DType::kBF16, {4, 8}}, good = {DType::kBF16, {8}}, bad = {DType::kF32, {8}};
  EXPECT_TRUE(breaks("C3", kLayerNorm, {x, bad}));
  EXPECT_TRUE(breaks("C3", kLayerNorm, {x, good, bad}));
  EXPECT_TRUE(breaks("C3", kLayerNorm, {{DType::kI32, {4, 8}}}));
}

TEST(LayerNormVerify, C4_RejectsNegativeOrInfiniteEps) {
  EXPECT_TRUE(breaks("C4", kLayerNorm, {{DType::kF32, {8}}}, {-1.0f}));
  EXPECT_TRUE(breaks("C4", kLayerNorm, {{DType::kF32, {8}}}, {std::numeric_limits<float>::infinity()}));
}

TEST(LayerNormInfer, KeepsTheType) {
  EXPECT_EQ(inferred(kLayerNorm, {{DType::kF16, {4, 8}}}), (ir::TensorType{DType::kF16, {4, 8}}));
}

TEST(LayerNormBuilder, RefusesABiasWithoutAWeight) {
  Sheet sheet;
  const ir::Value x = sheet.f32({2}, {1, 2});
  ops::layer_norm(sheet.builder, x, 1e-6f, std::nullopt, x);
  EXPECT_FALSE(sheet.builder.finish().has_value());
}

TEST(LayerNormReference, CentresAndScalesEachRow) {
  Sheet sheet;
  const ir::Value x = sheet.f32({2, 3}, {1, 2, 6, 5, 5, 5}), w = sheet.f32({3}, {1, 2, 1}),
                  bias = sheet.f32({3}, {0, 0, 100});
  // Mean 3, biased variance (4 + 1 + 9) / 3.
  const double scale = 1 / std::sqrt(14.0 / 3 + 0.25);
  EXPECT_TRUE(near(sheet.run(ops::layer_norm(sheet.builder, x, 0.25f, w, bias)),
                   {-2 * scale, -2 * scale, 3 * scale + 100, 0, 0, 100}, 1e-5));
}

TEST(LayerNormReference, KeepsSmallDifferencesOfLargeNumbers) {
  Sheet sheet;
  // A variance as mean(x^2) - mean^2 in f32 would be lost here.
  EXPECT_TRUE(near(sheet.run(ops::layer_norm(sheet.builder, sheet.f32({2}, {65536.0f, 65536.25f}), 0.0f)),
                   {-1, 1}, 1e-6));
}

/// The mean is subtracted from numbers that it resembles, so an error is small beside max|x| / std, which is
/// the instance's scale: seen 1e-7 of it. A variance over n - 1 or a forgotten eps shows in each row of few
/// columns.
OpCases layer_norm_cases() {
  return {kFloats,
          [](Random& random, DType dtype) {
            OneOp one(random);
            Shape shape = random.shape(1, 4, 200);
            shape.set_dim(-1, random.one_in(8) ? random.between(1000, 4200) : random.size(300));
            const float eps = random.pick({1e-6f, 1e-5f, 1e-2f});
            io::HostTensor x =
                random.normal({dtype, shape}, random.pick({0.01, 1.0, 30.0}), random.pick({0.0, 2.0}));
            const double scale = normalisation_scale(x, shape.dim(-1), eps);
            const ir::Value value = one.input(std::move(x));
            std::optional<ir::Value> w, bias;
            if (random.one_in(2)) w = one.weight(random.uniform({dtype, {shape.dim(-1)}}, -1, 1));
            if (w && random.one_in(2)) bias = one.weight(random.uniform({dtype, {shape.dim(-1)}}, -1, 1));
            return one.finish(ops::layer_norm(one.builder, value, eps, w, bias), scale);
          },
          [](DType dtype) -> Tolerance {
            return {.relative = dtype == DType::kF32 ? 1e-6 : one_ulp(dtype), .of_scale = 1e-6};
          }};
}

}  // namespace dif::conformance
