#include "ops/gather_rows/gather_rows.op.h"
#include "tests/conformance/op_test.h"

namespace dif::conformance {

using ops::kGatherRows;

TEST(GatherRowsVerify, C1_RejectsATableWithoutRows) {
  EXPECT_TRUE(breaks("C1", kGatherRows, {{DType::kF32, {}}, {DType::kI32, {2}}}));
}

TEST(GatherRowsVerify, C2_RejectsIdsThatAreNotI32) {
  EXPECT_TRUE(breaks("C2", kGatherRows, {{DType::kF32, {4, 2}}, {DType::kI64, {2}}}));
}

TEST(GatherRowsVerify, C3_RejectsTooManyAxes) {
  EXPECT_TRUE(breaks("C3", kGatherRows, {{DType::kF32, {1, 1, 1, 1, 1}}, {DType::kI32, {1, 1, 1, 1, 1}}}));
  EXPECT_TRUE(holds(kGatherRows, {{DType::kF32, {1, 1, 1, 1, 1}}, {DType::kI32, {1, 1, 1, 1}}}));
}

TEST(GatherRowsInfer, PutsTheShapeOfIdsBeforeTheRow) {
  EXPECT_EQ(inferred(kGatherRows, {{DType::kBF16, {9, 2, 3}}, {DType::kI32, {4, 5}}}),
            (ir::TensorType{DType::kBF16, {4, 5, 2, 3}}));
  EXPECT_EQ(inferred(kGatherRows, {{DType::kF32, {9}}, {DType::kI32, {}}}),
            (ir::TensorType{DType::kF32, {}}));
}

TEST(GatherRowsReference, ReadsTheNamedRows) {
  Sheet sheet;
  const ir::Value table = sheet.f32({3, 2}, {0, 1, 10, 11, 20, 21}), ids = sheet.i32({4}, {2, 0, 2, 1});
  EXPECT_EQ(sheet.run(ops::gather_rows(sheet.builder, table, ids)),
            (std::vector<float>{20, 21, 0, 1, 20, 21, 10, 11}));
}

TEST(GatherRowsReference, NamesAnIdOutsideTheTable) {
  for (const std::int32_t id : {3, -1}) {
    Sheet sheet;
    const ir::Value table = sheet.f32({3, 1}, {0, 1, 2}), ids = sheet.i32({2}, {1, id});
    const std::string error = sheet.run_error(ops::gather_rows(sheet.builder, table, ids));
    EXPECT_NE(error.find(fmt::format("id {} ", id)), std::string::npos) << error;
  }
}

/// Bytes are moved.
OpCases gather_rows_cases() {
  return {all_dtypes(),
          [](Random& random, DType dtype) {
            OneOp one(random);
            Shape table = random.shape(1, 4, 5000), ids = random.shape(0, 3, 200);
            if (table.dim(0) == 0) table.set_dim(0, 1);
            const ir::Value rows = one.weight(random.bits({dtype, table}));
            const ir::Value wanted =
                one.input(random.integers(ids, 0, static_cast<std::int32_t>(table.dim(0) - 1)));
            return one.finish(ops::gather_rows(one.builder, rows, wanted));
          },
          same_bits};
}

}  // namespace dif::conformance
