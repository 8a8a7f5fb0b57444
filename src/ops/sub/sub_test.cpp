#include "ops/sub/sub.op.h"
#include "tests/conformance/op_test.h"

namespace dif::conformance {

using ops::kSub;

TEST(SubVerify, C1_RejectsOperandsOfTwoDtypes) {
  EXPECT_TRUE(breaks("C1", kSub, {{DType::kF32, {2}}, {DType::kBF16, {2}}}));
}

TEST(SubVerify, C1_RejectsDtypesWithoutArithmetic) {
  for (const DType dtype : {DType::kBool, DType::kU8, DType::kI64, DType::kF64, DType::kF8E4M3})
    EXPECT_TRUE(breaks("C1", kSub, {{dtype, {2}}, {dtype, {2}}})) << dtype_name(dtype);
}

TEST(SubVerify, C2_RejectsShapesThatDoNotBroadcast) {
  EXPECT_TRUE(breaks("C2", kSub, {{DType::kF32, {2, 3}}, {DType::kF32, {2}}}));
  EXPECT_TRUE(breaks("C2", kSub, {{DType::kF32, {0, 3}}, {DType::kF32, {2, 3}}}));
}

TEST(SubInfer, RepeatsDimensionsOfOne) {
  const ir::TensorType x = {DType::kF16, {4, 1, 3}}, y = {DType::kF16, {5, 1}}, z = {DType::kF16, {4, 5, 3}};
  ASSERT_TRUE(holds(kSub, {x, y}));
  EXPECT_EQ(inferred(kSub, {x, y}), z);
  EXPECT_EQ(inferred(kSub, {y, x}), z);
  EXPECT_EQ(inferred(kSub, {{DType::kI32, {}}, {DType::kI32, {0}}}), (ir::TensorType{DType::kI32, {0}}));
}

TEST(SubReference, RepeatsTheShorterOperand) {
  Sheet sheet;
  const ir::Value x = sheet.f32({2, 2}, {1, 2, 3, 4}), y = sheet.f32({2}, {10, 20});
  EXPECT_EQ(sheet.run(ops::sub(sheet.builder, x, y)), (std::vector<float>{-9, -18, -7, -16}));
}

TEST(SubReference, WrapsIntegers) {
  Sheet sheet;
  const ir::Value x = sheet.i32({2}, {-2147483647, -5}), y = sheet.i32({2}, {2, 7});
  EXPECT_EQ(sheet.run(ops::sub(sheet.builder, x, y)), (std::vector<float>{2147483647.0f, -12}));
}

TEST(SubReference, RoundsOnceToTheOperandsDtype) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    Sheet sheet;
    const float x = 1.0f + 1.0f / 64, y = 3.0f + 1.0f / 64;
    const ir::Value z = ops::sub(sheet.builder, sheet.floats(dtype, {1}, {x}), sheet.floats(dtype, {1}, {y}));
    const io::HostTensor want = *io::convert(io::HostTensor::f32({1}, std::vector<float>{x - y}), dtype);
    EXPECT_EQ(sheet.run(z), want.to_f32()) << dtype_name(dtype);
  }
}

/// One IEEE operation and one rounding: nothing else is right.
OpCases sub_cases() {
  return {kNumbers, [](Random& random, DType dtype) { return binary_instance(random, dtype, ops::sub); },
          same_bits};
}

}  // namespace dif::conformance
