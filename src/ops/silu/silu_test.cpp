#include "ops/silu/silu.op.h"
#include "tests/conformance/op_test.h"

namespace dif::conformance {

using ops::kSilu;

TEST(SiluVerify, C1_RejectsIntegers) {
  EXPECT_TRUE(breaks("C1", kSilu, {{DType::kI32, {2}}}));
  EXPECT_TRUE(breaks("C1", kSilu, {{DType::kF64, {2}}}));
}

TEST(SiluInfer, KeepsTheType) {
  EXPECT_EQ(inferred(kSilu, {{DType::kBF16, {3, 2}}}), (ir::TensorType{DType::kBF16, {3, 2}}));
}

TEST(SiluReference, MatchesHandComputedNumbers) {
  Sheet sheet;
  const ir::Value x = sheet.f32({5}, {0, 1, -1, 20, -200});
  EXPECT_TRUE(near(sheet.run(ops::silu(sheet.builder, x)),
                   {0, 0.731058578630004879, -0.268941421369995121, 19.9999999587769284, 0}, 1e-6));
}

/// f32: seen 2 neighbours on the CPU (its exponential); a wrong sign or a missing one in the denominator is
/// off by more than a tenth. bf16 and f16: the last bit may round the other way. Below -87 the f32
/// exponential overflows and the result is 0 instead of a denormal, hence of_scale.
OpCases silu_cases() {
  return {kFloats,
          [](Random& random, DType dtype) {
            OneOp one(random);
            const double spread = random.pick({1.0, 4.0, 60.0});
            const ir::Value x = one.input(random.normal({dtype, random.shape(0, 4, 20000)}, spread));
            return one.finish(ops::silu(one.builder, x));
          },
          [](DType dtype) -> Tolerance {
            return {.relative = dtype == DType::kF32 ? 1e-6 : one_ulp(dtype), .of_scale = 1e-30};
          }};
}

}  // namespace dif::conformance
