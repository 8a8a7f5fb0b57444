#include "opt/image_stages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "ir/builder.h"
#include "ir/verifier.h"
#include "ops/add/add.op.h"
#include "ops/conv2d/conv2d.op.h"
#include "ops/group_norm/group_norm.op.h"
#include "ops/reshape/reshape.op.h"
#include "ops/silu/silu.op.h"
#include "ops/upsample_nearest/upsample_nearest.op.h"

namespace dif::opt {
namespace {

constexpr std::int64_t kChannels = 4, kHeight = 12, kWidth = 5;

ir::Value convolution(ir::Builder& b, const std::string& name, ir::Value x, std::int64_t kernel = 3) {
  const std::int64_t pad = kernel / 2;
  return ops::conv2d(b, x, b.constant(name, {DType::kF32, {kChannels, kChannels, kernel, kernel}}),
                     std::nullopt, {.pads = {pad, pad, pad, pad}});
}

ir::Value norm(ir::Builder& b, const std::string& name, ir::Value x) {
  return ops::silu(b, ops::group_norm(b, x, b.constant(name + ".w", {DType::kF32, {kChannels}}),
                                      b.constant(name + ".b", {DType::kF32, {kChannels}}), 2, 1e-6f));
}

/// A resnet, an upsampling and a last norm, behind something that needs the whole image.
ir::Program sample() {
  ir::Builder b("sample");
  const ir::Value flat = b.input("x", {DType::kF32, {1, kChannels, kHeight * kWidth}});
  const ir::Value x = convolution(b, "in", ops::reshape(b, flat, {1, kChannels, kHeight, kWidth}));
  ir::Value h = convolution(b, "conv1", norm(b, "norm1", x));
  h = convolution(b, "conv2", norm(b, "norm2", h));
  h = ops::add(b, convolution(b, "shortcut", x, 1), h);
  h = convolution(b, "up", ops::upsample_nearest(b, h, 2));
  b.output("y", convolution(b, "out", norm(b, "norm3", h)));
  auto program = b.finish();
  EXPECT_TRUE(program) << program.error().message;
  return std::move(*program);
}

TEST(ImageStages, OneForEachNormBehindTheLastOperationThatNeedsWholeImages) {
  const ir::Program program = sample();
  const auto stages = ImageStages::find(program);
  ASSERT_TRUE(stages) << stages.error().message;
  ASSERT_EQ(stages->stages().size(), 3U);
  const auto& [first, second, third] =
      std::tie(stages->stages()[0], stages->stages()[1], stages->stages()[2]);
  EXPECT_EQ(first.reads.size(), 1U);
  EXPECT_EQ(second.reads.size(), 2U) << "the shortcut is computed where it is added";
  EXPECT_EQ(third.reads.size(), 1U);
  for (const auto& stage : stages->stages()) {
    EXPECT_EQ(stage.norms.size(), 1U);
    EXPECT_EQ(stage.writes.size(), 1U);
  }
  EXPECT_EQ(first.height, kHeight);
  EXPECT_EQ(second.height, 2 * kHeight);
  EXPECT_EQ(second.row_multiple, 2);
}

TEST(ImageStages, ASlabReadsTheRowsThatItsConvolutionsReach) {
  const ir::Program program = sample();
  const auto stages = ImageStages::find(program);
  ASSERT_TRUE(stages);
  const auto slab = stages->slab(1, 4);
  ASSERT_TRUE(slab) << slab.error().message;
  ASSERT_TRUE(ir::verify(slab->program));
  ASSERT_EQ(slab->inputs.size(), 2U);
  std::vector<Rows> rows = {slab->inputs[0].rows, slab->inputs[1].rows};
  // Four rows of the result are rows -1 .. 4 of the upsampled image, which are -1 .. 2 of what is added.
  EXPECT_NE(std::ranges::find(rows, Rows{-1, 3}), rows.end()) << "of the shortcut";
  EXPECT_NE(std::ranges::find(rows, Rows{-2, 4}), rows.end()) << "of the second convolution";
  EXPECT_EQ(slab->masks.size(), 2U) << "one for each convolution with padding";
  EXPECT_EQ(slab->moved({-2, 4}, kHeight, 8), (Rows{2, 8}));
  EXPECT_EQ(slab->outputs[0].rows, (Rows{0, 4}));
}

TEST(ImageStages, WhatComesBeforeGivesTheImagesThatAreReadLater) {
  const ir::Program program = sample();
  const auto stages = ImageStages::find(program);
  ASSERT_TRUE(stages);
  for (std::size_t first = 0; first < 3; ++first) {
    const auto part = stages->part_before(first);
    ASSERT_TRUE(part);
    EXPECT_TRUE(ir::verify(*part));
    ASSERT_EQ(part->outputs.size(), stages->images_before(first).size());
    for (std::size_t i = 0; i < part->outputs.size(); ++i)
      EXPECT_EQ(part->type(part->outputs[i].value), program.type(stages->images_before(first)[i]));
  }
  EXPECT_EQ(stages->images_before(1).size(), 2U) << "what is normalised, and what is added";
}

TEST(ImageStages, AProgramWithoutANormBehindWholeImagesIsDeclined) {
  ir::Builder b("plain");
  const ir::Value x = b.input("x", {DType::kF32, {1, kChannels, kHeight, kWidth}});
  b.output("y",
           ops::reshape(b, norm(b, "norm", convolution(b, "conv", x)), {1, kChannels, kHeight * kWidth}));
  const auto program = b.finish();
  ASSERT_TRUE(program);
  const auto stages = ImageStages::find(*program);
  ASSERT_FALSE(stages);
  EXPECT_EQ(stages.error().code, ErrorCode::kDeclined);
}

TEST(ImageStages, ANormOfAnInputIsDeclined) {
  ir::Builder b("early");
  const ir::Value x = b.input("x", {DType::kF32, {1, kChannels, kHeight, kWidth}});
  b.output("y", convolution(b, "conv", norm(b, "norm", x)));
  const auto program = b.finish();
  ASSERT_TRUE(program);
  const auto stages = ImageStages::find(*program);
  ASSERT_FALSE(stages);
  EXPECT_NE(stages.error().message.find("reads an input late"), std::string::npos) << stages.error().message;
}

}  // namespace
}  // namespace dif::opt
