#include "ops/slice/slice.op.h"
#include "tests/conformance/op_test.h"

namespace dif::conformance {

using ops::kSlice;

TEST(SliceVerify, C1_RejectsAxesThatXDoesNotHave) {
  const ir::TensorType x = {DType::kF32, {2, 3}};
  EXPECT_TRUE(breaks("C1", kSlice, {x}, {std::int64_t{2}, std::int64_t{0}, std::int64_t{1}}));
  EXPECT_TRUE(breaks("C1", kSlice, {x}, {std::int64_t{-1}, std::int64_t{0}, std::int64_t{1}}));
  EXPECT_TRUE(breaks("C1", kSlice, {{DType::kF32, {}}}, {std::int64_t{0}, std::int64_t{0}, std::int64_t{0}}));
}

TEST(SliceVerify, C2_RejectsRangesOutsideTheAxis) {
  const ir::TensorType x = {DType::kF32, {2, 3}};
  for (const auto& [start, end] : {std::pair{-1, 2}, std::pair{2, 1}, std::pair{0, 4}, std::pair{4, 4}})
    EXPECT_TRUE(breaks("C2", kSlice, {x}, {std::int64_t{1}, std::int64_t{start}, std::int64_t{end}}));
}

TEST(SliceInfer, ShortensOneAxis) {
  EXPECT_EQ(inferred(kSlice, {{DType::kI64, {2, 3}}}, {std::int64_t{1}, std::int64_t{1}, std::int64_t{3}}),
            (ir::TensorType{DType::kI64, {2, 2}}));
}

TEST(SliceBuilder, CountsNegativeAxesFromTheEnd) {
  Sheet sheet;
  const ir::Value x = sheet.f32({2, 3}, {0, 1, 2, 10, 11, 12});
  EXPECT_EQ(sheet.run(ops::slice(sheet.builder, x, -1, 1, 3)), (std::vector<float>{1, 2, 11, 12}));
}

TEST(SliceReference, TakesRowsOfTheFirstAxis) {
  Sheet sheet;
  const ir::Value x = sheet.f32({3, 2}, {0, 1, 10, 11, 20, 21});
  EXPECT_EQ(sheet.run(ops::slice(sheet.builder, x, 0, 1, 2)), (std::vector<float>{10, 11}));
}

/// Bytes are moved.
OpCases slice_cases() {
  return {
      all_dtypes(),
      [](Random& random, DType dtype) {
        OneOp one(random);
        const Shape shape = random.shape(1, 5, 20000);
        const int axis = static_cast<int>(random.between(-shape.rank(), shape.rank() - 1));
        const std::int64_t start = random.between(0, shape.dim(axis)),
                           end = random.between(start, shape.dim(axis));
        return one.finish(ops::slice(one.builder, one.input(random.bits({dtype, shape})), axis, start, end));
      },
      same_bits};
}

}  // namespace dif::conformance
