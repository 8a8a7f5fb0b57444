#include "ops/concat/concat.op.h"
#include "tests/conformance/op_test.h"

namespace dif::conformance {

using ops::kConcat;

constexpr std::int64_t kFirst = 0, kSecond = 1;

TEST(ConcatVerify, C1_RejectsAxesThatXDoesNotHave) {
  const ir::TensorType x = {DType::kF32, {2, 3}};
  EXPECT_TRUE(breaks("C1", kConcat, {x, x}, {std::int64_t{2}}));
  EXPECT_TRUE(breaks("C1", kConcat, {x, x}, {std::int64_t{-1}}));
  EXPECT_TRUE(breaks("C1", kConcat, {{DType::kF32, {}}}, {kFirst}));
}

TEST(ConcatVerify, C2_RejectsOperandsOfTwoDtypesOrRanks) {
  EXPECT_TRUE(breaks("C2", kConcat, {{DType::kF32, {2}}, {DType::kF16, {2}}}, {kFirst}));
  EXPECT_TRUE(breaks("C2", kConcat, {{DType::kF32, {2}}, {DType::kF32, {2, 1}}}, {kFirst}));
}

TEST(ConcatVerify, C3_RejectsOtherDimensionsThatDiffer) {
  EXPECT_TRUE(breaks("C3", kConcat, {{DType::kF32, {2, 3}}, {DType::kF32, {2, 4}}}, {kFirst}));
  EXPECT_TRUE(holds(kConcat, {{DType::kF32, {2, 3}}, {DType::kF32, {2, 4}}}, {kSecond}));
}

TEST(ConcatVerify, NeedsAnOperand) {
  Sheet sheet;
  ops::concat(sheet.builder, {}, 0);
  EXPECT_FALSE(sheet.builder.finish().has_value());
}

TEST(ConcatInfer, AddsUpTheAxis) {
  EXPECT_EQ(
      inferred(kConcat, {{DType::kF32, {2, 3}}, {DType::kF32, {2, 0}}, {DType::kF32, {2, 4}}}, {kSecond}),
      (ir::TensorType{DType::kF32, {2, 7}}));
}

TEST(ConcatReference, JoinsRows) {
  Sheet sheet;
  const ir::Value x = sheet.f32({2, 1}, {1, 2}), y = sheet.f32({2, 2}, {10, 11, 20, 21});
  const std::vector<ir::Value> xs = {x, y, x};
  EXPECT_EQ(sheet.run(ops::concat(sheet.builder, xs, -1)), (std::vector<float>{1, 10, 11, 1, 2, 20, 21, 2}));
}

/// Bytes are moved.
OpCases concat_cases() {
  return {all_dtypes(),
          [](Random& random, DType dtype) {
            OneOp one(random);
            Shape shape = random.shape(1, 5, 5000);
            const int axis = static_cast<int>(random.between(-shape.rank(), shape.rank() - 1));
            std::vector<ir::Value> xs;
            for (std::int64_t left = random.between(1, 5); left > 0; --left) {
              shape.set_dim(axis, random.one_in(8) ? 0 : random.size(40));
              xs.push_back(xs.empty() ? one.input(random.bits({dtype, shape}))
                                      : one.weight(random.bits({dtype, shape})));
            }
            return one.finish(ops::concat(one.builder, xs, axis));
          },
          same_bits};
}

}  // namespace dif::conformance
