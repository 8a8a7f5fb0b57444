#include "io/checkpoint_stats.h"

#include <gtest/gtest.h>

#include "tests/support/paths.h"

namespace dif::io {
namespace {

TEST(NumberedPattern, ReplacesNumbersThatStandAlone) {
  EXPECT_EQ(numbered_pattern("layers.12.attn.to_out.0.weight"), "layers.#.attn.to_out.#.weight");
  EXPECT_EQ(numbered_pattern("conv1.weight"), "conv1.weight");
  EXPECT_EQ(numbered_pattern("7"), "#");
  EXPECT_EQ(numbered_pattern("a..b."), "a..b.");
}

TEST(CheckpointStats, CountsByDtypeRankAndPattern) {
  const std::vector<CheckpointRow> rows = {
      {"layers.0.w", "BF16", {2, 3}, 12, 0},
      {"layers.1.w", "BF16", {2, 3}, 12, 0},
      {"layers.2.w", "BF16", {2, 4}, 16, 1},
      {"scale", "F8_E8M0", {}, 1, 1},
  };
  const CheckpointStats stats = checkpoint_stats(rows, 2);
  EXPECT_EQ(stats.all.tensors, 4U);
  EXPECT_EQ(stats.all.elements, 6U + 6 + 8 + 1);
  EXPECT_EQ(stats.all.bytes, 41U);
  EXPECT_EQ(stats.by_dtype.at("BF16").bytes, 40U);
  EXPECT_EQ(stats.by_dtype.at("F8_E8M0").elements, 1U);
  EXPECT_EQ(stats.by_rank.at(2).tensors, 3U);
  ASSERT_EQ(stats.patterns.size(), 1U);
  EXPECT_EQ(stats.patterns[0].name, "layers.#.w");
  EXPECT_EQ(stats.patterns[0].shape, "[2, 3]");
  EXPECT_EQ(stats.patterns[0].totals.tensors, 2U);
  ASSERT_EQ(stats.largest.size(), 2U);
  EXPECT_EQ(stats.largest[0].name, "layers.2.w");
  EXPECT_EQ(stats.largest[1].name, "layers.0.w");
}

TEST(CheckpointStats, OfTheBundledTransformer) {
  const auto checkpoint = open_checkpoint(test::model_dir() / "transformer");
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  const CheckpointStats stats = checkpoint_stats(checkpoint_rows(*checkpoint), 1);
  EXPECT_EQ(stats.all.elements, 4596224U);  // the model's README
  EXPECT_EQ(stats.all.bytes, checkpoint->total_bytes());
  EXPECT_EQ(stats.by_dtype.size(), 1U);
}

}  // namespace
}  // namespace dif::io
