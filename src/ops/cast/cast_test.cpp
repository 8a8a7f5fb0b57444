#include <limits>

#include "ops/cast/cast.op.h"
#include "tests/conformance/op_test.h"

namespace dif::conformance {

using ops::kCast;

TEST(CastVerify, C1_RejectsOtherDtypesOnEitherSide) {
  for (const DType dtype : {DType::kF64, DType::kF8E4M3, DType::kBool, DType::kI64}) {
    EXPECT_TRUE(breaks("C1", kCast, {{dtype, {2}}}, {DType::kF32})) << dtype_name(dtype);
    EXPECT_TRUE(breaks("C1", kCast, {{DType::kF32, {2}}}, {dtype})) << dtype_name(dtype);
  }
}

TEST(CastInfer, ChangesTheDtypeAlone) {
  EXPECT_EQ(inferred(kCast, {{DType::kF32, {3, 2}}}, {DType::kBF16}), (ir::TensorType{DType::kBF16, {3, 2}}));
}

TEST(CastReference, RoundsToNearestEven) {
  Sheet sheet;
  // Half-way between two bf16 numbers: to the even one; a little above: up.
  const ir::Value x = sheet.f32({4}, {1.00390625f, 1.01171875f, 1.0039063692f, -1.00390625f});
  const ir::Value y = ops::cast(sheet.builder, x, DType::kBF16);
  EXPECT_EQ(sheet.run(y), (std::vector<float>{1.0f, 1.015625f, 1.0078125f, -1.0f}));
}

TEST(CastReference, OverflowsToInfinityInF16) {
  Sheet sheet;
  const std::vector<float> y =
      sheet.run(ops::cast(sheet.builder, sheet.f32({2}, {65519.0f, 65520.0f}), DType::kF16));
  EXPECT_EQ(y, (std::vector<float>{65504.0f, std::numeric_limits<float>::infinity()}));
}

TEST(CastReference, TruncatesAndSaturatesToI32) {
  Sheet sheet;
  const ir::Value x =
      sheet.f32({6}, {1.9f, -1.9f, 3e9f, -3e9f, std::numeric_limits<float>::quiet_NaN(), 2147483520.0f});
  const io::HostTensor y = sheet.run_tensor(ops::cast(sheet.builder, x, DType::kI32));
  const auto values = y.as<std::int32_t>();
  EXPECT_EQ(std::vector<std::int32_t>(values.begin(), values.end()),
            (std::vector<std::int32_t>{1, -1, 2147483647, -2147483647 - 1, 0, 2147483520}));
}

TEST(CastReference, TakesI32ByWayOfF32) {
  Sheet sheet;
  const ir::Value x = sheet.i32({3}, {7, -3, 16777217});
  EXPECT_EQ(sheet.run(ops::cast(sheet.builder, x, DType::kF32)), (std::vector<float>{7, -3, 16777216}));
}

/// Every conversion is defined to the last bit.
OpCases cast_cases() {
  return {kNumbers,
          [](Random& random, DType dtype) {
            OneOp one(random);
            const ir::TensorType type = {dtype, random.shape(0, 4, 20000)};
            const double spread = random.pick({1.0, 1e5, 3e9});
            io::HostTensor x = random.bits(type);
            if (dtype != DType::kI32 && !random.one_in(3))
              x = random.one_in(3) ? random.special(type) : random.normal(type, spread);
            return one.finish(ops::cast(one.builder, one.input(std::move(x)),
                                        random.pick({DType::kF32, DType::kBF16, DType::kF16, DType::kI32})));
          },
          same_bits};
}

}  // namespace dif::conformance
