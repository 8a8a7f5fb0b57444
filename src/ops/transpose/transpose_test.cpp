#include "ops/transpose/transpose.op.h"
#include "tests/conformance/op_test.h"

namespace dif::conformance {

using ops::kTranspose;

using Perm = std::vector<std::int64_t>;

TEST(TransposeVerify, C1_RejectsWhatIsNoPermutation) {
  const ir::TensorType x = {DType::kF32, {2, 3, 4}};
  for (const Perm& perm : {Perm{0, 1}, Perm{0, 1, 1}, Perm{0, 1, 3}, Perm{-1, 0, 1}, Perm{0, 1, 2, 3}})
    EXPECT_TRUE(breaks("C1", kTranspose, {x}, {perm}));
}

TEST(TransposeInfer, MovesDimensions) {
  EXPECT_EQ(inferred(kTranspose, {{DType::kU8, {2, 3, 4}}}, {Perm{2, 0, 1}}),
            (ir::TensorType{DType::kU8, {4, 2, 3}}));
  EXPECT_EQ(inferred(kTranspose, {{DType::kU8, {}}}, {Perm{}}), (ir::TensorType{DType::kU8, {}}));
}

TEST(TransposeReference, MovesElements) {
  Sheet sheet;
  const ir::Value x = sheet.f32({2, 3, 2}, {0, 1, 10, 11, 20, 21, 100, 101, 110, 111, 120, 121});
  EXPECT_EQ(sheet.run(ops::transpose(sheet.builder, x, {1, 2, 0})),
            (std::vector<float>{0, 100, 1, 101, 10, 110, 11, 111, 20, 120, 21, 121}));
}

/// Bytes are moved.
OpCases transpose_cases() {
  return {all_dtypes(),
          [](Random& random, DType dtype) {
            OneOp one(random);
            const Shape shape = random.shape(0, 5, 20000);
            Perm perm(static_cast<std::size_t>(shape.rank()));
            for (std::size_t i = 0; i < perm.size(); ++i) perm[i] = static_cast<std::int64_t>(i);
            for (std::size_t i = 1; i < perm.size(); ++i)
              std::swap(perm[i],
                        perm[static_cast<std::size_t>(random.between(0, static_cast<std::int64_t>(i)))]);
            return one.finish(ops::transpose(one.builder, one.input(random.bits({dtype, shape})), perm));
          },
          same_bits};
}

}  // namespace dif::conformance
