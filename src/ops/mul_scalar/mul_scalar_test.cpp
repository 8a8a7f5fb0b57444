#include <limits>

#include "base/float_convert.h"
#include "ops/mul_scalar/mul_scalar.op.h"
#include "tests/conformance/op_test.h"

namespace dif::conformance {

using ops::kMulScalar;

TEST(MulScalarVerify, C1_RejectsIntegers) {
  EXPECT_TRUE(breaks("C1", kMulScalar, {{DType::kI32, {2}}}));
  EXPECT_TRUE(breaks("C1", kMulScalar, {{DType::kF64, {2}}}));
}

TEST(MulScalarVerify, C2_RejectsNumbersThatAreNotFinite) {
  EXPECT_TRUE(breaks("C2", kMulScalar, {{DType::kF32, {2}}}, {std::numeric_limits<float>::infinity()}));
  EXPECT_TRUE(breaks("C2", kMulScalar, {{DType::kF32, {2}}}, {std::numeric_limits<float>::quiet_NaN()}));
}

TEST(MulScalarInfer, KeepsTheType) {
  const ir::TensorType x = {DType::kBF16, {3, 0}};
  ASSERT_TRUE(holds(kMulScalar, {x}));
  EXPECT_EQ(inferred(kMulScalar, {x}), x);
}

TEST(MulScalarReference, ComputesEachElement) {
  Sheet sheet;
  const ir::Value x = sheet.f32({3}, {1, -1, 3});
  EXPECT_EQ(sheet.run(ops::mul_scalar(sheet.builder, x, 0.5f)), (std::vector<float>{0.5f, -0.5f, 1.5f}));
}

TEST(MulScalarReference, UsesTheNumberInF32AndRoundsOnce) {
  Sheet sheet;
  const float value = 1.0f + 1.0f / 512;  // not a bf16 number
  const ir::Value x = sheet.floats(DType::kBF16, {1}, {1.0078125f});
  const float want = bf16_to_f32(f32_to_bf16(1.0078125f * value));
  EXPECT_EQ(sheet.run(ops::mul_scalar(sheet.builder, x, value)), (std::vector<float>{want}));
}

/// One IEEE operation and one rounding: nothing else is right.
OpCases mul_scalar_cases() {
  return {kFloats,
          [](Random& random, DType dtype) {
            OneOp one(random);
            const ir::TensorType type = {dtype, random.shape(0, 4, 20000)};
            const ir::Value x = one.input(random.one_in(4) ? random.special(type) : random.normal(type));
            const float value =
                random.pick({0.0f, 1.0f, -1.0f, 0.1f, 1e-3f, -37.25f, static_cast<float>(random.normal())});
            return one.finish(ops::mul_scalar(one.builder, x, value));
          },
          same_bits};
}

}  // namespace dif::conformance
