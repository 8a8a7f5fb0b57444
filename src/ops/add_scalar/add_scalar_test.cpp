#include <limits>

#include "base/float_convert.h"
#include "ops/add_scalar/add_scalar.op.h"
#include "tests/conformance/op_test.h"

namespace dif::conformance {

using ops::kAddScalar;

TEST(AddScalarVerify, C1_RejectsIntegers) {
  EXPECT_TRUE(breaks("C1", kAddScalar, {{DType::kI32, {2}}}));
  EXPECT_TRUE(breaks("C1", kAddScalar, {{DType::kF64, {2}}}));
}

TEST(AddScalarVerify, C2_RejectsNumbersThatAreNotFinite) {
  EXPECT_TRUE(breaks("C2", kAddScalar, {{DType::kF32, {2}}}, {std::numeric_limits<float>::infinity()}));
  EXPECT_TRUE(breaks("C2", kAddScalar, {{DType::kF32, {2}}}, {std::numeric_limits<float>::quiet_NaN()}));
}

TEST(AddScalarInfer, KeepsTheType) {
  const ir::TensorType x = {DType::kBF16, {3, 0}};
  ASSERT_TRUE(holds(kAddScalar, {x}));
  EXPECT_EQ(inferred(kAddScalar, {x}), x);
}

TEST(AddScalarReference, ComputesEachElement) {
  Sheet sheet;
  const ir::Value x = sheet.f32({3}, {1, -1, 3});
  EXPECT_EQ(sheet.run(ops::add_scalar(sheet.builder, x, 0.5f)), (std::vector<float>{1.5f, -0.5f, 3.5f}));
}

TEST(AddScalarReference, UsesTheNumberInF32AndRoundsOnce) {
  Sheet sheet;
  const float value = 1.0f + 1.0f / 512;  // not a bf16 number
  const ir::Value x = sheet.floats(DType::kBF16, {1}, {1.0078125f});
  const float want = bf16_to_f32(f32_to_bf16(1.0078125f + value));
  EXPECT_EQ(sheet.run(ops::add_scalar(sheet.builder, x, value)), (std::vector<float>{want}));
}

/// One IEEE operation and one rounding: nothing else is right.
OpCases add_scalar_cases() {
  return {kFloats,
          [](Random& random, DType dtype) {
            OneOp one(random);
            const ir::TensorType type = {dtype, random.shape(0, 4, 20000)};
            const ir::Value x = one.input(random.one_in(4) ? random.special(type) : random.normal(type));
            const float value =
                random.pick({0.0f, 1.0f, -1.0f, 0.1f, 1e-3f, -37.25f, static_cast<float>(random.normal())});
            return one.finish(ops::add_scalar(one.builder, x, value));
          },
          same_bits};
}

}  // namespace dif::conformance
