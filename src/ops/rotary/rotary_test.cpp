#include "ops/rotary/rotary.op.h"
#include "tests/conformance/op_test.h"

namespace dif::conformance {

using ops::kRotary;

TEST(RotaryVerify, C1_RejectsOtherRanks) {
  const ir::TensorType table = {DType::kF32, {3, 2}};
  EXPECT_TRUE(breaks("C1", kRotary, {{DType::kF32, {3, 2, 4}}, table, table}));
}

TEST(RotaryVerify, C2_RejectsTablesOfOtherTypes) {
  const ir::TensorType x = {DType::kF32, {1, 3, 2, 4}}, good = {DType::kF32, {3, 2}};
  for (const ir::TensorType& bad : {ir::TensorType{DType::kF32, {3, 1}},
                                    {DType::kF32, {2, 2}},
                                    {DType::kF32, {6}},
                                    {DType::kBF16, {3, 2}}}) {
    EXPECT_TRUE(breaks("C2", kRotary, {x, bad, good}));
    EXPECT_TRUE(breaks("C2", kRotary, {x, good, bad}));
  }
  const ir::TensorType wide = {DType::kF32, {3, 3}}, half = {DType::kBF16, {3, 2}};
  EXPECT_TRUE(breaks("C2", kRotary, {x, wide, wide}));
  EXPECT_TRUE(breaks("C2", kRotary, {x, half, half}));
}

TEST(RotaryVerify, C3_RejectsIntegers) {
  const ir::TensorType table = {DType::kF32, {3, 2}};
  EXPECT_TRUE(breaks("C3", kRotary, {{DType::kI32, {1, 3, 2, 4}}, table, table}));
}

TEST(RotaryInfer, KeepsTheType) {
  const ir::TensorType x = {DType::kBF16, {1, 3, 2, 5}}, table = {DType::kF32, {3, 2}};
  ASSERT_TRUE(holds(kRotary, {x, table, table}));
  EXPECT_EQ(inferred(kRotary, {x, table, table}), x);
}

TEST(RotaryReference, TurnsNeighboursWhenInterleaved) {
  Sheet sheet;
  const ir::Value x = sheet.f32({1, 1, 1, 5}, {1, 2, 3, 4, 9});
  const ir::Value cos = sheet.f32({1, 2}, {0, 1}), sin = sheet.f32({1, 2}, {1, 0});
  EXPECT_EQ(sheet.run(ops::rotary(sheet.builder, x, cos, sin, true)), (std::vector<float>{-2, 1, 3, 4, 9}));
}

TEST(RotaryReference, TurnsHalvesOtherwise) {
  Sheet sheet;
  const ir::Value x = sheet.f32({1, 1, 1, 5}, {1, 2, 3, 4, 9});
  const ir::Value cos = sheet.f32({1, 2}, {0, 1}), sin = sheet.f32({1, 2}, {1, 0});
  EXPECT_EQ(sheet.run(ops::rotary(sheet.builder, x, cos, sin, false)), (std::vector<float>{-3, 2, 1, 4, 9}));
}

TEST(RotaryReference, ReadsTheTableRowOfThePosition) {
  Sheet sheet;
  // [B 2, S 2, H 1, D 2]: position 0 stays, position 1 turns by a quarter.
  const ir::Value x = sheet.f32({2, 2, 1, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  const ir::Value cos = sheet.f32({2, 1}, {1, 0}), sin = sheet.f32({2, 1}, {0, 1});
  EXPECT_EQ(sheet.run(ops::rotary(sheet.builder, x, cos, sin, true)),
            (std::vector<float>{1, 2, -4, 3, 5, 6, -8, 7}));
}

/// Each product is rounded, then the sum, then the result: nothing else is right, a fused multiply-add
/// neither.
OpCases rotary_cases() {
  return {kFloats,
          [](Random& random, DType dtype) {
            OneOp one(random);
            const std::int64_t n_positions = random.size(40),
                               width = random.one_in(2) ? random.size(130)
                                                        : random.pick<std::int64_t>({8, 32, 64, 128});
            const std::int64_t half = random.one_in(3) ? random.between(0, width / 2) : width / 2;
            const Shape shape = {random.between(1, 2), n_positions, random.between(1, 5), width};
            const ir::Value x = one.input(random.normal({dtype, shape}));
            const ir::Value cos = one.weight(random.uniform({DType::kF32, {n_positions, half}}, -1, 1));
            const ir::Value sin = one.weight(random.uniform({DType::kF32, {n_positions, half}}, -1, 1));
            return one.finish(ops::rotary(one.builder, x, cos, sin, random.one_in(2)));
          },
          same_bits};
}

}  // namespace dif::conformance
