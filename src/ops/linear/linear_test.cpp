#include <cmath>

#include "ops/linear/linear.op.h"
#include "tests/conformance/op_test.h"

namespace dif::conformance {

using ops::kLinear;

TEST(LinearVerify, C1_RejectsOtherRanks) {
  EXPECT_TRUE(breaks("C1", kLinear, {{DType::kF32, {}}, {DType::kF32, {2, 3}}}));
  EXPECT_TRUE(breaks("C1", kLinear, {{DType::kF32, {3}}, {DType::kF32, {3}}}));
}

TEST(LinearVerify, C2_RejectsRowsOfAnotherWidth) {
  EXPECT_TRUE(breaks("C2", kLinear, {{DType::kF32, {4, 2}}, {DType::kF32, {2, 3}}}));
}

TEST(LinearVerify, C3_RejectsABiasOfAnotherSize) {
  EXPECT_TRUE(breaks("C3", kLinear, {{DType::kF32, {4, 3}}, {DType::kF32, {2, 3}}, {DType::kF32, {3}}}));
  EXPECT_TRUE(breaks("C3", kLinear, {{DType::kF32, {4, 3}}, {DType::kF32, {2, 3}}, {DType::kF32, {1, 2}}}));
}

TEST(LinearVerify, C4_RejectsMixedAndOtherDtypes) {
  EXPECT_TRUE(breaks("C4", kLinear, {{DType::kF32, {4, 3}}, {DType::kBF16, {2, 3}}}));
  EXPECT_TRUE(breaks("C4", kLinear, {{DType::kF32, {4, 3}}, {DType::kF32, {2, 3}}, {DType::kBF16, {2}}}));
  EXPECT_TRUE(breaks("C4", kLinear, {{DType::kI32, {4, 3}}, {DType::kI32, {2, 3}}}));
}

TEST(LinearInfer, ReplacesTheLastDimension) {
  EXPECT_EQ(inferred(kLinear, {{DType::kF16, {5, 4, 3}}, {DType::kF16, {2, 3}}}),
            (ir::TensorType{DType::kF16, {5, 4, 2}}));
}

TEST(LinearReference, MultipliesByTheTransposedWeight) {
  Sheet sheet;
  const ir::Value x = sheet.f32({2, 3}, {1, 2, 3, 4, 5, 6}), w = sheet.f32({2, 3}, {1, 0, -1, 2, 1, 0});
  const ir::Value bias = sheet.f32({2}, {100, 200});
  EXPECT_EQ(sheet.run(ops::linear(sheet.builder, x, w, bias)), (std::vector<float>{98, 204, 98, 213}));
}

TEST(LinearReference, WithoutInputsGivesTheBias) {
  Sheet sheet;
  const ir::Value x = sheet.f32({2, 0}, {}), w = sheet.f32({2, 0}, {}), bias = sheet.f32({2}, {3, 4});
  EXPECT_EQ(sheet.run(ops::linear(sheet.builder, x, w, bias)), (std::vector<float>{3, 4, 3, 4}));
}

TEST(LinearReference, RoundsTheSumAndNotTheProducts) {
  Sheet sheet;
  // 1 + 256 * 2^-9 = 1.5; a sum in bf16 would stay at 1.
  std::vector<float> terms(257, 1.0f / 512);
  terms[0] = 1;
  const ir::Value x = sheet.floats(DType::kBF16, {1, 257}, terms);
  const ir::Value w = sheet.floats(DType::kBF16, {1, 257}, std::vector<float>(257, 1));
  EXPECT_EQ(sheet.run(ops::linear(sheet.builder, x, w)), (std::vector<float>{1.5f}));
}

/// f32 sums in another order: seen 1e-6 of the terms' size; one product too many or too few is above 1e-2 of
/// it. bf16 and f16: the last bit may round the other way.
OpCases linear_cases() {
  return {kFloats,
          [](Random& random, DType dtype) {
            OneOp one(random);
            Shape x_shape = random.shape(1, 4, 70);
            const std::int64_t width = random.one_in(24)  ? 0
                                       : random.one_in(8) ? random.between(1000, 1300)
                                                          : random.size(300);
            const std::int64_t n_out = random.one_in(32) ? 0 : random.size(200);
            x_shape.set_dim(-1, width);
            const ir::Value x = one.input(random.normal({dtype, x_shape}));
            const ir::Value w = one.weight(random.normal({dtype, {n_out, width}}, 0.25));
            std::optional<ir::Value> bias;
            if (random.one_in(2)) bias = one.weight(random.normal({dtype, {n_out}}));
            return one.finish(ops::linear(one.builder, x, w, bias),
                              1 + std::sqrt(static_cast<double>(width)));
          },
          [](DType dtype) -> Tolerance {
            return {.relative = dtype == DType::kF32 ? 0 : one_ulp(dtype), .of_scale = 4e-6};
          }};
}

}  // namespace dif::conformance
