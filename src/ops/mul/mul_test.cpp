#include "ops/mul/mul.op.h"
#include "tests/conformance/op_test.h"

namespace dif::conformance {

using ops::kMul;

TEST(MulVerify, C1_RejectsOperandsOfTwoDtypes) {
  EXPECT_TRUE(breaks("C1", kMul, {{DType::kF32, {2}}, {DType::kBF16, {2}}}));
}

TEST(MulVerify, C1_RejectsDtypesWithoutArithmetic) {
  for (const DType dtype : {DType::kBool, DType::kU8, DType::kI64, DType::kF64, DType::kF8E4M3})
    EXPECT_TRUE(breaks("C1", kMul, {{dtype, {2}}, {dtype, {2}}})) << dtype_name(dtype);
}

TEST(MulVerify, C2_RejectsShapesThatDoNotBroadcast) {
  EXPECT_TRUE(breaks("C2", kMul, {{DType::kF32, {2, 3}}, {DType::kF32, {2}}}));
  EXPECT_TRUE(breaks("C2", kMul, {{DType::kF32, {0, 3}}, {DType::kF32, {2, 3}}}));
}

TEST(MulInfer, RepeatsDimensionsOfOne) {
  const ir::TensorType x = {DType::kF16, {4, 1, 3}}, y = {DType::kF16, {5, 1}}, z = {DType::kF16, {4, 5, 3}};
  ASSERT_TRUE(holds(kMul, {x, y}));
  EXPECT_EQ(inferred(kMul, {x, y}), z);
  EXPECT_EQ(inferred(kMul, {y, x}), z);
  EXPECT_EQ(inferred(kMul, {{DType::kI32, {}}, {DType::kI32, {0}}}), (ir::TensorType{DType::kI32, {0}}));
}

TEST(MulReference, RepeatsTheShorterOperand) {
  Sheet sheet;
  const ir::Value x = sheet.f32({2, 2}, {1, 2, 3, 4}), y = sheet.f32({2}, {10, 20});
  EXPECT_EQ(sheet.run(ops::mul(sheet.builder, x, y)), (std::vector<float>{10, 40, 30, 80}));
}

TEST(MulReference, WrapsIntegers) {
  Sheet sheet;
  const ir::Value x = sheet.i32({2}, {65536, -5}), y = sheet.i32({2}, {65536, 7});
  EXPECT_EQ(sheet.run(ops::mul(sheet.builder, x, y)), (std::vector<float>{0, -35}));
}

TEST(MulReference, RoundsOnceToTheOperandsDtype) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    Sheet sheet;
    const float x = 1.0f + 1.0f / 64, y = 3.0f + 1.0f / 64;
    const ir::Value z = ops::mul(sheet.builder, sheet.floats(dtype, {1}, {x}), sheet.floats(dtype, {1}, {y}));
    const io::HostTensor want = *io::convert(io::HostTensor::f32({1}, std::vector<float>{x * y}), dtype);
    EXPECT_EQ(sheet.run(z), want.to_f32()) << dtype_name(dtype);
  }
}

/// One IEEE operation and one rounding: nothing else is right.
OpCases mul_cases() {
  return {kNumbers, [](Random& random, DType dtype) { return binary_instance(random, dtype, ops::mul); },
          same_bits};
}

}  // namespace dif::conformance
