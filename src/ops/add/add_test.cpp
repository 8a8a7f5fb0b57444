#include "ops/add/add.op.h"
#include "tests/conformance/op_test.h"

namespace dif::conformance {

using ops::kAdd;

TEST(AddVerify, C1_RejectsOperandsOfTwoDtypes) {
  EXPECT_TRUE(breaks("C1", kAdd, {{DType::kF32, {2}}, {DType::kBF16, {2}}}));
}

TEST(AddVerify, C1_RejectsDtypesWithoutArithmetic) {
  for (const DType dtype : {DType::kBool, DType::kU8, DType::kI64, DType::kF64, DType::kF8E4M3})
    EXPECT_TRUE(breaks("C1", kAdd, {{dtype, {2}}, {dtype, {2}}})) << dtype_name(dtype);
}

TEST(AddVerify, C2_RejectsShapesThatDoNotBroadcast) {
  EXPECT_TRUE(breaks("C2", kAdd, {{DType::kF32, {2, 3}}, {DType::kF32, {2}}}));
  EXPECT_TRUE(breaks("C2", kAdd, {{DType::kF32, {0, 3}}, {DType::kF32, {2, 3}}}));
}

TEST(AddInfer, RepeatsDimensionsOfOne) {
  const ir::TensorType x = {DType::kF16, {4, 1, 3}}, y = {DType::kF16, {5, 1}}, z = {DType::kF16, {4, 5, 3}};
  ASSERT_TRUE(holds(kAdd, {x, y}));
  EXPECT_EQ(inferred(kAdd, {x, y}), z);
  EXPECT_EQ(inferred(kAdd, {y, x}), z);
  EXPECT_EQ(inferred(kAdd, {{DType::kI32, {}}, {DType::kI32, {0}}}), (ir::TensorType{DType::kI32, {0}}));
}

TEST(AddReference, RepeatsTheShorterOperand) {
  Sheet sheet;
  const ir::Value x = sheet.f32({2, 2}, {1, 2, 3, 4}), y = sheet.f32({2}, {10, 20});
  EXPECT_EQ(sheet.run(ops::add(sheet.builder, x, y)), (std::vector<float>{11, 22, 13, 24}));
}

TEST(AddReference, WrapsIntegers) {
  Sheet sheet;
  const ir::Value x = sheet.i32({2}, {2147483647, -5}), y = sheet.i32({2}, {1, 7});
  EXPECT_EQ(sheet.run(ops::add(sheet.builder, x, y)), (std::vector<float>{-2147483648.0f, 2}));
}

TEST(AddReference, RoundsOnceToTheOperandsDtype) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    Sheet sheet;
    const float x = 1.0f + 1.0f / 64, y = 3.0f + 1.0f / 64;
    const ir::Value z = ops::add(sheet.builder, sheet.floats(dtype, {1}, {x}), sheet.floats(dtype, {1}, {y}));
    const io::HostTensor want = *io::convert(io::HostTensor::f32({1}, std::vector<float>{x + y}), dtype);
    EXPECT_EQ(sheet.run(z), want.to_f32()) << dtype_name(dtype);
  }
}

/// One IEEE operation and one rounding: nothing else is right.
OpCases add_cases() {
  return {kNumbers, [](Random& random, DType dtype) { return binary_instance(random, dtype, ops::add); },
          same_bits};
}

}  // namespace dif::conformance
