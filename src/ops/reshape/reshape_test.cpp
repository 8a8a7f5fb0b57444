#include <algorithm>

#include "ops/reshape/reshape.op.h"
#include "ops/transpose/transpose.op.h"
#include "tests/conformance/op_test.h"

namespace dif::conformance {

using ops::kReshape;

using Dims = std::vector<std::int64_t>;

TEST(ReshapeVerify, C1_RejectsAnotherNumberOfElements) {
  EXPECT_TRUE(breaks("C1", kReshape, {{DType::kF32, {2, 3}}}, {Dims{7}}));
  EXPECT_TRUE(breaks("C1", kReshape, {{DType::kF32, {}}}, {Dims{0}}));
}

TEST(ReshapeVerify, C1_RejectsShapesThatNoTensorHas) {
  EXPECT_TRUE(breaks("C1", kReshape, {{DType::kF32, {6}}}, {Dims{-2, -3}}));
  EXPECT_TRUE(breaks("C1", kReshape, {{DType::kF32, {1}}}, {Dims(9, 1)}));
  EXPECT_TRUE(breaks("C1", kReshape, {{DType::kF32, {0}}}, {Dims{INT64_MAX, INT64_MAX, 0}}));
}

TEST(ReshapeInfer, TakesTheShape) {
  EXPECT_EQ(inferred(kReshape, {{DType::kBool, {2, 3}}}, {Dims{3, 1, 2}}),
            (ir::TensorType{DType::kBool, {3, 1, 2}}));
}

TEST(ReshapeReference, KeepsTheOrder) {
  Sheet sheet;
  const ir::Value x = sheet.f32({2, 3}, {1, 2, 3, 4, 5, 6});
  const ir::Value y = ops::reshape(sheet.builder, x, {3, 2});
  EXPECT_EQ(sheet.run(ops::transpose(sheet.builder, y, {1, 0})), (std::vector<float>{1, 3, 5, 2, 4, 6}));
}

/// Bytes are moved.
OpCases reshape_cases() {
  return {all_dtypes(),
          [](Random& random, DType dtype) {
            OneOp one(random);
            const Shape shape = random.shape(0, 4, 5000);
            Dims dims(shape.dims().begin(), shape.dims().end());
            std::ranges::reverse(dims);
            while (dims.size() < 8 && random.one_in(2)) dims.insert(dims.begin(), 1);
            if (random.one_in(4)) dims = {shape.numel()};
            const ir::Value x = one.input(random.bits({dtype, shape}));
            return one.finish(ops::reshape(one.builder, x, Shape(dims)));
          },
          same_bits};
}

}  // namespace dif::conformance
