#include <cmath>

#include "ops/sqrt/sqrt.op.h"
#include "tests/conformance/op_test.h"

namespace dif::conformance {

using ops::kSqrt;

TEST(SqrtVerify, C1_RejectsIntegers) {
  EXPECT_TRUE(breaks("C1", kSqrt, {{DType::kI32, {2}}}));
  EXPECT_TRUE(breaks("C1", kSqrt, {{DType::kF8E5M2, {2}}}));
}

TEST(SqrtInfer, KeepsTheType) {
  EXPECT_EQ(inferred(kSqrt, {{DType::kF16, {1, 2}}}), (ir::TensorType{DType::kF16, {1, 2}}));
}

TEST(SqrtReference, IsNaNBelowZero) {
  Sheet sheet;
  const std::vector<float> y = sheet.run(ops::sqrt(sheet.builder, sheet.f32({4}, {4, 0, 2.25f, -1})));
  EXPECT_EQ((std::vector<float>(y.begin(), y.begin() + 3)), (std::vector<float>{2, 0, 1.5f}));
  EXPECT_TRUE(std::isnan(y[3]));
}

/// IEEE defines the square root to the last bit.
OpCases sqrt_cases() {
  return {kFloats,
          [](Random& random, DType dtype) {
            OneOp one(random);
            const ir::TensorType type = {dtype, random.shape(0, 4, 20000)};
            const ir::Value x =
                one.input(random.one_in(3) ? random.special(type) : random.uniform(type, 0, 100));
            return one.finish(ops::sqrt(one.builder, x));
          },
          same_bits};
}

}  // namespace dif::conformance
