#include <cmath>
#include <limits>

#include "ops/timestep_embedding/timestep_embedding.op.h"
#include "tests/conformance/op_test.h"

namespace dif::conformance {

using ops::kTimestepEmbedding;

TEST(TimestepEmbeddingVerify, C1_RejectsOtherTimes) {
  EXPECT_TRUE(breaks("C1", kTimestepEmbedding, {{DType::kBF16, {2}}}, {std::int64_t{4}}));
  EXPECT_TRUE(breaks("C1", kTimestepEmbedding, {{DType::kF32, {2, 1}}}, {std::int64_t{4}}));
}

TEST(TimestepEmbeddingVerify, C2_RejectsOddOrEmptyWidths) {
  for (const std::int64_t width : {5, 0, -2})
    EXPECT_TRUE(breaks("C2", kTimestepEmbedding, {{DType::kF32, {2}}}, {width})) << width;
}

TEST(TimestepEmbeddingVerify, C3_RejectsPeriodsThatAreNotAboveOne) {
  for (const float period :
       {1.0f, 0.0f, -5.0f, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()})
    EXPECT_TRUE(breaks("C3", kTimestepEmbedding, {{DType::kF32, {2}}}, {std::int64_t{4}, period})) << period;
}

TEST(TimestepEmbeddingInfer, GivesOneRowPerTime) {
  EXPECT_EQ(inferred(kTimestepEmbedding, {{DType::kF32, {3}}}, {std::int64_t{6}}),
            (ir::TensorType{DType::kF32, {3, 6}}));
}

TEST(TimestepEmbeddingReference, PutsCosinesFirst) {
  Sheet sheet;
  const ir::Value t = sheet.f32({2}, {0, 500});
  // Frequencies 1, 10^-1, 10^-2, 10^-3.
  const std::vector<double> want = {1,
                                    1,
                                    1,
                                    1,
                                    0,
                                    0,
                                    0,
                                    0,
                                    std::cos(500.0),
                                    std::cos(50.0),
                                    std::cos(5.0),
                                    std::cos(0.5),
                                    std::sin(500.0),
                                    std::sin(50.0),
                                    std::sin(5.0),
                                    std::sin(0.5)};
  EXPECT_TRUE(near(sheet.run(ops::timestep_embedding(sheet.builder, t, 8)), want, 2e-5));
}

TEST(TimestepEmbeddingReference, RoundsFrequenciesAndAnglesToF32) {
  Sheet sheet;
  const ir::Value t = sheet.f32({1}, {997.0f});
  const float exponent = static_cast<float>(-std::log(10000.0)) * 3.0f / 8.0f;
  const float angle = 997.0f * static_cast<float>(std::exp(static_cast<double>(exponent)));
  const std::vector<float> y = sheet.run(ops::timestep_embedding(sheet.builder, t, 16));
  EXPECT_EQ(y[3], static_cast<float>(std::cos(static_cast<double>(angle))));
  EXPECT_EQ(y[11], static_cast<float>(std::sin(static_cast<double>(angle))));
}

/// A frequency that differs in its last bit moves an angle of up to 1000 by 1.2e-4. Sines first, or a period
/// over width instead of width / 2, is off by about 1.
OpCases timestep_embedding_cases() {
  return {{DType::kF32},
          [](Random& random, DType) {
            OneOp one(random);
            const Shape shape = {random.one_in(24) ? 0 : random.size(9)};
            const ir::Value t = one.input(random.uniform({DType::kF32, shape}, 0, 1000));
            return one.finish(ops::timestep_embedding(one.builder, t, 2 * random.size(160),
                                                      random.pick({10000.0f, 100.0f})));
          },
          [](DType) -> Tolerance { return {.of_scale = 2e-4}; }};
}

}  // namespace dif::conformance
