#include "io/safetensors_shards.h"

#include <gtest/gtest.h>

#include "io/checkpoint.h"
#include "io/test_files.h"
#include "tests/support/paths.h"

namespace dif::io {
namespace {

using Starts = std::vector<std::size_t>;

TEST(ShardStarts, FillsShardsFromTheFrontInOrder) {
  EXPECT_EQ(shard_starts({4, 4, 4}, 12), Starts({0}));
  EXPECT_EQ(shard_starts({4, 4, 4}, 11), Starts({0, 2}));
  EXPECT_EQ(shard_starts({1, 9, 1, 9}, 10), Starts({0, 2}));
  EXPECT_EQ(shard_starts({}, 10), Starts({}));
}

TEST(ShardStarts, ATensorLargerThanAShardHasItsOwn) {
  EXPECT_EQ(shard_starts({1, 50, 1}, 10), Starts({0, 1, 2}));
  EXPECT_EQ(shard_starts({50}, 10), Starts({0}));
}

class SafetensorsShards : public testing::Test {
 protected:
  Status write(std::uint64_t max_shard_bytes) {
    return write_safetensors_shards(dir_.path(), "model", tensors_, max_shard_bytes, {{"format", "pt"}});
  }

  const std::vector<float> a_ = {1, 2}, b_ = {3, 4, 5}, c_ = {6};
  const std::vector<TensorToWrite> tensors_ = {
      {"c", DType::kF32, {1}, std::as_bytes(std::span(c_))},
      {"a", DType::kF32, {2}, std::as_bytes(std::span(a_))},
      {"b", DType::kF32, {3}, std::as_bytes(std::span(b_))},
  };
  test::ScratchDir dir_;
};

TEST_F(SafetensorsShards, WhatFitsIsOneFileWithoutIndex) {
  ASSERT_TRUE(write(24));
  EXPECT_EQ(names_in(dir_.path()), std::vector<std::string>{"model.safetensors"});
}

TEST_F(SafetensorsShards, OurReaderOpensTheIndexAndFindsEveryTensor) {
  const Status written = write(12);
  ASSERT_TRUE(written) << written.error().message;
  EXPECT_EQ(names_in(dir_.path()),
            (std::vector<std::string>{"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
                                      "model.safetensors.index.json"}));
  const auto checkpoint = open_checkpoint(dir_.path());
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_EQ(checkpoint->shards().size(), 2U);
  EXPECT_EQ(checkpoint->total_bytes(), 24U);
  for (const TensorToWrite& tensor : tensors_) {
    const TensorRef* const found = checkpoint->find(tensor.name);
    ASSERT_NE(found, nullptr) << tensor.name;
    EXPECT_EQ(found->shape, tensor.shape);
    EXPECT_EQ(found->bytes, tensor.data.size());
  }
  EXPECT_EQ(checkpoint->shards().front().metadata().at("format"), "pt");
}

}  // namespace
}  // namespace dif::io
