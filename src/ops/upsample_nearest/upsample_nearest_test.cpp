#include "ops/upsample_nearest/upsample_nearest.op.h"
#include "tests/conformance/op_test.h"

namespace dif::conformance {

using ops::kUpsampleNearest;

TEST(UpsampleNearestVerify, C1_RejectsOtherRanks) {
  EXPECT_TRUE(breaks("C1", kUpsampleNearest, {{DType::kF32, {2, 3, 4}}}, {std::int64_t{2}, false}));
}

TEST(UpsampleNearestVerify, C2_RejectsFactorsOutsideOneTo64) {
  for (const std::int64_t factor :
       {std::int64_t{0}, std::int64_t{-1}, std::int64_t{65}, std::int64_t{INT64_MAX}})
    EXPECT_TRUE(breaks("C2", kUpsampleNearest, {{DType::kF32, {1, 2, 3, 4}}}, {factor, false})) << factor;
}

TEST(UpsampleNearestInfer, GrowsRowsAndColumns) {
  EXPECT_EQ(inferred(kUpsampleNearest, {{DType::kU8, {1, 2, 3, 4}}}, {std::int64_t{3}, false}),
            (ir::TensorType{DType::kU8, {1, 2, 9, 12}}));
}

TEST(UpsampleNearestInfer, KeepsChannelsLast) {
  EXPECT_EQ(inferred(kUpsampleNearest, {{DType::kU8, {1, 3, 4, 2}}}, {std::int64_t{3}, true}),
            (ir::TensorType{DType::kU8, {1, 9, 12, 2}}));
}

TEST(UpsampleNearestReference, RepeatsPixelsWithTheirChannels) {
  Sheet sheet;
  const ir::Value x = sheet.f32({1, 1, 2, 2}, {1, 2, 3, 4});
  EXPECT_EQ(sheet.run(ops::upsample_nearest(sheet.builder, x, 2, true)),
            (std::vector<float>{1, 2, 1, 2, 3, 4, 3, 4, 1, 2, 1, 2, 3, 4, 3, 4}));
}

TEST(UpsampleNearestReference, RepeatsEachElement) {
  Sheet sheet;
  const ir::Value x = sheet.f32({1, 2, 1, 2}, {1, 2, 3, 4});
  EXPECT_EQ(sheet.run(ops::upsample_nearest(sheet.builder, x, 2)),
            (std::vector<float>{1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4, 3, 3, 4, 4}));
}

/// Bytes are moved.
OpCases upsample_nearest_cases() {
  return {all_dtypes(),
          [](Random& random, DType dtype) {
            OneOp one(random);
            const ir::Value x = one.input(random.bits({dtype, random.shape(4, 4, 2000)}));
            return one.finish(ops::upsample_nearest(one.builder, x, random.between(1, 4), random.one_in(2)));
          },
          same_bits};
}

}  // namespace dif::conformance
