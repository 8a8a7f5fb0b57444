#include <cmath>
#include <limits>

#include "ops/attention/attention.op.h"
#include "tests/conformance/op_test.h"

namespace dif::conformance {

using ops::kAttention;

namespace {

ir::TensorType f32(const Shape& shape) {
  return {DType::kF32, shape};
}

}  // namespace

TEST(AttentionVerify, C1_RejectsOperandsThatDoNotBelongTogether) {
  const ir::TensorType q = f32({2, 5, 4, 8}), k = f32({2, 7, 2, 8}), v = f32({2, 7, 2, 3});
  ASSERT_TRUE(holds(kAttention, {q, k, v}));
  EXPECT_TRUE(breaks("C1", kAttention, {f32({5, 4, 8}), k, v}));
  EXPECT_TRUE(breaks("C1", kAttention, {q, f32({7, 2, 8}), v}));
  EXPECT_TRUE(breaks("C1", kAttention, {q, k, f32({7, 2, 3})}));
  EXPECT_TRUE(breaks("C1", kAttention, {f32({1, 5, 4, 8}), k, v}));
  EXPECT_TRUE(breaks("C1", kAttention, {q, k, f32({1, 7, 2, 3})}));
  EXPECT_TRUE(breaks("C1", kAttention, {q, k, f32({2, 6, 2, 3})}));
  EXPECT_TRUE(breaks("C1", kAttention, {q, k, f32({2, 7, 1, 3})}));
}

TEST(AttentionVerify, C2_RejectsKeysOfAnotherWidth) {
  EXPECT_TRUE(breaks("C2", kAttention, {f32({2, 5, 4, 8}), f32({2, 7, 2, 9}), f32({2, 7, 2, 3})}));
}

TEST(AttentionVerify, C3_RejectsKeyHeadsThatDoNotDivideTheQueryHeads) {
  EXPECT_TRUE(breaks("C3", kAttention, {f32({2, 5, 4, 8}), f32({2, 7, 3, 8}), f32({2, 7, 3, 3})}));
  EXPECT_TRUE(breaks("C3", kAttention, {f32({2, 5, 4, 8}), f32({2, 7, 0, 8}), f32({2, 7, 0, 3})}));
}

TEST(AttentionVerify, C4_RejectsMixedAndOtherDtypes) {
  const ir::TensorType q = f32({1, 2, 1, 4}), half = {DType::kBF16, {1, 2, 1, 4}},
                       integer = {DType::kI32, {1, 2, 1, 4}};
  EXPECT_TRUE(breaks("C4", kAttention, {q, half, q}));
  EXPECT_TRUE(breaks("C4", kAttention, {q, q, half}));
  EXPECT_TRUE(breaks("C4", kAttention, {integer, integer, integer}));
}

TEST(AttentionVerify, C5_RejectsOtherMasks) {
  const ir::TensorType q = f32({1, 2, 1, 4});
  EXPECT_TRUE(breaks("C5", kAttention, {q, q, q, f32({1, 2})}));
  EXPECT_TRUE(breaks("C5", kAttention, {q, q, q, {DType::kBool, {1, 3}}}));
  EXPECT_TRUE(breaks("C5", kAttention, {q, q, q, {DType::kBool, {2}}}));
}

TEST(AttentionVerify, C6_RejectsCausalWithOtherKeysThanQueries) {
  EXPECT_TRUE(breaks("C6", kAttention, {f32({1, 2, 1, 4}), f32({1, 3, 1, 4}), f32({1, 3, 1, 4})}, {true}));
}

TEST(AttentionVerify, C7_RejectsAScaleThatIsNotFinite) {
  const ir::TensorType q = f32({1, 2, 1, 4});
  EXPECT_TRUE(breaks("C7", kAttention, {q, q, q}, {false, std::numeric_limits<float>::infinity()}));
  EXPECT_TRUE(breaks("C7", kAttention, {q, q, q}, {false, std::numeric_limits<float>::quiet_NaN()}));
}

TEST(AttentionInfer, HasTheWidthOfValues) {
  EXPECT_EQ(inferred(kAttention, {f32({2, 5, 4, 8}), f32({2, 7, 2, 8}), f32({2, 7, 2, 3})}),
            f32({2, 5, 4, 3}));
}

TEST(AttentionReference, WeighsValuesByTheSoftmaxOfScores) {
  Sheet sheet;
  const ir::Value q = sheet.f32({1, 1, 1, 2}, {1, 2}), k = sheet.f32({1, 2, 1, 2}, {1, 0, 0, 1});
  const ir::Value v = sheet.f32({1, 2, 1, 1}, {10, 20});
  // Scores 0.5 and 1.
  const double p = 1 / (1 + std::exp(-0.5));
  EXPECT_TRUE(near(sheet.run(ops::attention(sheet.builder, q, k, v, std::nullopt, false, 0.5f)),
                   {10 * (1 - p) + 20 * p}, 1e-5));
}

TEST(AttentionReference, DoesNotLookAheadWhenCausal) {
  Sheet sheet;
  const ir::Value q = sheet.f32({1, 3, 1, 1}, {0, 0, 0}), v = sheet.f32({1, 3, 1, 1}, {3, 6, 12});
  EXPECT_TRUE(
      near(sheet.run(ops::attention(sheet.builder, q, q, v, std::nullopt, true, 1.0f)), {3, 4.5, 7}, 1e-5));
}

TEST(AttentionReference, GivesZerosToAQueryWithoutAllowedKeys) {
  Sheet sheet;
  const ir::Value q = sheet.f32({1, 3, 1, 1}, {0, 0, 0}), v = sheet.f32({1, 3, 1, 1}, {3, 6, 12});
  const ir::Value mask = sheet.flags({1, 3}, {0, 1, 1});
  EXPECT_TRUE(near(sheet.run(ops::attention(sheet.builder, q, q, v, mask, true, 1.0f)), {0, 6, 9}, 1e-5));
}

TEST(AttentionReference, SharesKeyHeadsAmongConsecutiveQueryHeads) {
  Sheet sheet;
  const ir::Value q = sheet.f32({1, 1, 4, 1}, {0, 0, 0, 0}), k = sheet.f32({1, 1, 2, 1}, {1, 1});
  const ir::Value v = sheet.f32({1, 1, 2, 1}, {5, 7});
  EXPECT_EQ(sheet.run(ops::attention(sheet.builder, q, k, v, std::nullopt, false, 1.0f)),
            (std::vector<float>{5, 5, 7, 7}));
}

TEST(AttentionReference, StandsLargeScores) {
  Sheet sheet;
  const ir::Value q = sheet.f32({1, 1, 1, 1}, {1000}), k = sheet.f32({1, 2, 1, 1}, {1000, 999});
  const ir::Value v = sheet.f32({1, 2, 1, 1}, {1, 2});
  EXPECT_TRUE(near(sheet.run(ops::attention(sheet.builder, q, k, v, std::nullopt, false, 1.0f)), {1}, 1e-6));
}

namespace {

/// All keys, some, the first ones only, or (one row of the batch) none.
io::HostTensor random_mask(Random& random, std::int64_t n_batches, std::int64_t n_keys) {
  io::HostTensor mask = random.flags({n_batches, n_keys});
  const std::int64_t kind = random.between(0, 3);
  const auto flags = mask.as<std::uint8_t>();
  for (std::int64_t b = 0; b < n_batches; ++b) {
    const std::int64_t first_hidden = random.between(0, n_keys);
    for (std::int64_t key = 0; key < n_keys; ++key) {
      std::uint8_t& flag = flags[static_cast<std::size_t>(b * n_keys + key)];
      if (kind == 0) flag = 1;
      if (kind == 1) flag = key < first_hidden;
      if (kind == 2 && b == 0) flag = 0;
    }
  }
  return mask;
}

Instance attention_instance(Random& random, DType dtype) {
  OneOp one(random);
  const bool wide = random.one_in(10), causal = random.one_in(3), none = random.one_in(24);
  const std::int64_t width = wide ? random.pick<std::int64_t>({512, 1024})
                                  : random.pick<std::int64_t>({8, 16, 32, 32, 40, 64, 64, 72, 80, 96, 128,
                                                               128, 256, random.between(1, 100)});
  const std::int64_t value_width = random.one_in(4) ? random.size(130) : width;
  const std::int64_t key_heads = random.between(1, 3),
                     n_heads = key_heads * random.pick<std::int64_t>({1, 1, 2, 4});
  const std::int64_t n_batches = random.between(1, 2), most = wide ? 24 : 150;
  const std::int64_t n_queries = random.size(most), n_keys = causal ? n_queries
                                                             : none ? 0
                                                                    : random.size(most);
  const ir::Value q = one.input(random.normal({dtype, {n_batches, n_queries, n_heads, width}}));
  const ir::Value k = one.input(random.normal({dtype, {n_batches, n_keys, key_heads, width}}));
  const ir::Value v = one.input(random.normal({dtype, {n_batches, n_keys, key_heads, value_width}}));
  std::optional<ir::Value> mask;
  if (random.one_in(2)) mask = one.input(random_mask(random, n_batches, n_keys));
  const float usual = 1.0f / std::sqrt(static_cast<float>(width));
  const float scale = random.pick({usual, usual, 3 * usual, 0.0f, -usual});
  // Rounding a score of about 4 * |scale / usual|, the largest among a hundred, changes its probability.
  return one.finish(ops::attention(one.builder, q, k, v, mask, causal, scale),
                    1 + 4 * std::abs(scale / usual));
}

}  // namespace

/// Values are about 1. f32: seen 1.2e-6 of the scale (width 1024); bf16 and f16 may
/// round the probabilities too: seen 5e-4 and 6e-5. One key too many or too few among n is an error of about
/// 1 / n, above 6e-3 here; a wrong scale or head is above 0.1.
OpCases attention_cases() {
  return {kFloats, attention_instance, [](DType dtype) -> Tolerance {
            if (dtype == DType::kF32) return {.of_scale = 2e-6};
            return {.relative = one_ulp(dtype), .of_scale = one_ulp(dtype) / 8};
          }};
}

}  // namespace dif::conformance
