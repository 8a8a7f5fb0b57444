#include <cmath>
#include <limits>

#include "base/float_convert.h"
#include "ops/rms_norm/rms_norm.op.h"
#include "tests/conformance/op_test.h"

namespace dif::conformance {

using ops::kRmsNorm;

TEST(RmsNormVerify, C1_RejectsScalarsAndEmptyRows) {
  EXPECT_TRUE(breaks("C1", kRmsNorm, {{DType::kF32, {}}}));
  EXPECT_TRUE(breaks("C1", kRmsNorm, {{DType::kF32, {4, 0}}}));
}

TEST(RmsNormVerify, C2_RejectsWeightOfOtherWidth) {
  EXPECT_TRUE(breaks("C2", kRmsNorm, {{DType::kF32, {4, 8}}, {DType::kF32, {7}}}));
  EXPECT_TRUE(breaks("C2", kRmsNorm, {{DType::kF32, {4, 8}}, {DType::kF32, {1, 8}}}));
}

TEST(RmsNormVerify, C3_RejectsMixedAndOtherDtypes) {
  EXPECT_TRUE(breaks("C3", kRmsNorm, {{DType::kBF16, {4, 8}}, {DType::kF32, {8}}}));
  EXPECT_TRUE(breaks("C3", kRmsNorm, {{DType::kI32, {4, 8}}}));
}

TEST(RmsNormVerify, C4_RejectsNegativeOrInfiniteEps) {
  const ir::TensorType x = {DType::kF32, {4, 8}};
  EXPECT_TRUE(breaks("C4", kRmsNorm, {x}, {-1e-6f}));
  EXPECT_TRUE(breaks("C4", kRmsNorm, {x}, {std::numeric_limits<float>::infinity()}));
  EXPECT_TRUE(breaks("C4", kRmsNorm, {x}, {std::numeric_limits<float>::quiet_NaN()}));
  EXPECT_TRUE(holds(kRmsNorm, {x}, {0.0f}));
}

TEST(RmsNormInfer, KeepsTheType) {
  EXPECT_EQ(inferred(kRmsNorm, {{DType::kBF16, {4, 8}}, {DType::kBF16, {8}}}),
            (ir::TensorType{DType::kBF16, {4, 8}}));
}

TEST(RmsNormReference, NormalisesEachRow) {
  Sheet sheet;
  const ir::Value x = sheet.f32({2, 2}, {3, 4, 0, 2}), w = sheet.f32({2}, {1, 10});
  // Mean squares 12.5 and 2.
  const double a = 1 / std::sqrt(12.5 + 0.5), b = 1 / std::sqrt(2 + 0.5);
  EXPECT_TRUE(near(sheet.run(ops::rms_norm(sheet.builder, x, w, 0.5f)), {3 * a, 40 * a, 0, 20 * b}, 1e-6));
}

TEST(RmsNormReference, RoundsOnceWithTheWeightIncluded) {
  Sheet sheet;
  const ir::Value x = sheet.floats(DType::kBF16, {1, 2}, {1, 3}),
                  w = sheet.floats(DType::kBF16, {2}, {1.3f, 1.7f});
  const double scale = 1 / std::sqrt(5.0);
  const auto bf16 = [](double value) { return bf16_to_f32(f32_to_bf16(static_cast<float>(value))); };
  const std::vector<float> want = {bf16(scale * static_cast<double>(bf16(1.3))),
                                   bf16(3 * scale * static_cast<double>(bf16(1.7)))};
  EXPECT_EQ(sheet.run(ops::rms_norm(sheet.builder, x, w, 0.0f)), want);
}

/// f32: nothing cancels, so a few neighbours. A mean over the wrong count or a forgotten eps is off by far
/// more.
OpCases rms_norm_cases() {
  return {kFloats,
          [](Random& random, DType dtype) {
            OneOp one(random);
            Shape shape = random.shape(1, 4, 200);
            shape.set_dim(-1, random.one_in(8) ? random.between(1000, 4200) : random.size(300));
            const ir::Value x = one.input(random.normal({dtype, shape}, random.pick({0.01, 1.0, 30.0})));
            std::optional<ir::Value> w;
            if (!random.one_in(3)) w = one.weight(random.normal({dtype, {shape.dim(-1)}}));
            return one.finish(ops::rms_norm(one.builder, x, w, random.pick({1e-6f, 1e-5f, 0.0f})));
          },
          [](DType dtype) -> Tolerance {
            return {.relative = dtype == DType::kF32 ? 2e-6 : one_ulp(dtype), .of_scale = 1e-30};
          }};
}

}  // namespace dif::conformance
