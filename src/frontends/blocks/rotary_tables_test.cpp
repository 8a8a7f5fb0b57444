#include "frontends/blocks/rotary_tables.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

namespace dif::frontends {
namespace {

TEST(RotaryTableF32, IsThatOfTransformers) {
  // torch 2.11: inv_freq = 1.0 / (1e6 ** (torch.arange(0, 32, 2, dtype=torch.int64).float() / 32)), angles
  // and cosines in float32; rows 1 and 511, columns 0, 1, 7 and 15.
  const RotaryTable table = rotary_table_f32(512, 32, 1e6);
  ASSERT_EQ(table.positions, 512);
  ASSERT_EQ(table.pairs, 16);
  ASSERT_EQ(table.cos.size(), 512u * 16u);
  EXPECT_FLOAT_EQ(table.cos[16], 0.540302277f);
  EXPECT_FLOAT_EQ(table.sin[16], 0.841470957f);
  EXPECT_NEAR(table.cos[1 * 16 + 1], 0.912395835f, 6e-8f);
  EXPECT_NEAR(table.sin[1 * 16 + 1], 0.40930894f, 6e-8f);
  EXPECT_NEAR(table.cos[1 * 16 + 7], 0.999997199f, 6e-8f);
  EXPECT_NEAR(table.sin[1 * 16 + 7], 0.00237137149f, 6e-8f);
  EXPECT_NEAR(table.cos[1 * 16 + 15], 1.0f, 6e-8f);
  EXPECT_NEAR(table.sin[1 * 16 + 15], 2.37137374e-06f, 6e-8f);
  EXPECT_NEAR(table.cos[511 * 16 + 1], -0.28386876f, 6e-8f);
  EXPECT_NEAR(table.sin[511 * 16 + 1], 0.958863139f, 6e-8f);
  EXPECT_NEAR(table.cos[511 * 16 + 7], 0.351360977f, 6e-8f);
  EXPECT_NEAR(table.sin[511 * 16 + 7], 0.936240077f, 6e-8f);
  EXPECT_NEAR(table.cos[511 * 16 + 15], 0.999999285f, 6e-8f);
  EXPECT_NEAR(table.sin[511 * 16 + 15], 0.00121177163f, 6e-8f);
}

TEST(RotaryTableF64, IsThatOfDiffusers) {
  // diffusers 0.40: Flux2PosEmbed(theta=2000, axes_dim=(8, 8, 8, 8)) at (0, 5, 63, 0) and (0, 0, 0, 511).
  const std::array<std::int64_t, 4> positions[] = {{0, 5, 63, 0}, {0, 0, 0, 511}};
  const RotaryTable table = rotary_table_f64(positions, {8, 8, 8, 8}, 2000);
  ASSERT_EQ(table.positions, 2);
  ASSERT_EQ(table.pairs, 16);
  EXPECT_FLOAT_EQ(table.cos[0 * 16 + 4], 0.2836622f);
  EXPECT_FLOAT_EQ(table.sin[0 * 16 + 4], -0.958924294f);
  EXPECT_FLOAT_EQ(table.cos[0 * 16 + 5], 0.733272135f);
  EXPECT_FLOAT_EQ(table.sin[0 * 16 + 5], 0.679935277f);
  EXPECT_FLOAT_EQ(table.cos[0 * 16 + 7], 0.999860227f);
  EXPECT_FLOAT_EQ(table.sin[0 * 16 + 7], 0.0167177282f);
  EXPECT_FLOAT_EQ(table.cos[0 * 16 + 8], 0.985896587f);
  EXPECT_FLOAT_EQ(table.sin[0 * 16 + 8], 0.167355701f);
  EXPECT_FLOAT_EQ(table.cos[0 * 16 + 9], -0.999991655f);
  EXPECT_FLOAT_EQ(table.sin[0 * 16 + 9], 0.00408062758f);
  EXPECT_FLOAT_EQ(table.cos[0 * 16 + 11], 0.977894545f);
  EXPECT_FLOAT_EQ(table.sin[0 * 16 + 11], 0.209098697f);
  EXPECT_FLOAT_EQ(table.cos[1 * 16 + 12], -0.471678883f);
  EXPECT_FLOAT_EQ(table.sin[1 * 16 + 12], 0.881770372f);
  EXPECT_FLOAT_EQ(table.cos[1 * 16 + 13], 0.528385043f);
  EXPECT_FLOAT_EQ(table.sin[1 * 16 + 13], 0.849004865f);
  EXPECT_FLOAT_EQ(table.cos[1 * 16 + 14], 0.417537034f);
  EXPECT_FLOAT_EQ(table.sin[1 * 16 + 14], -0.908659935f);
  EXPECT_FLOAT_EQ(table.cos[1 * 16 + 15], -0.137399122f);
  EXPECT_FLOAT_EQ(table.sin[1 * 16 + 15], 0.990515769f);
}

TEST(RotaryTableF64, AnAxisAtZeroDoesNotRotate) {
  const std::array<std::int64_t, 4> positions[] = {{0, 0, 7, 0}};
  const RotaryTable table = rotary_table_f64(positions, {4, 2, 2, 4}, 100);
  for (const std::size_t pair : {0, 1, 2, 4, 5}) {
    EXPECT_EQ(table.cos[pair], 1);
    EXPECT_EQ(table.sin[pair], 0);
  }
  EXPECT_EQ(table.cos[3], static_cast<float>(std::cos(7.0)));
}

TEST(RotaryTable, BecomesTwoConstants) {
  ir::Builder b("p");
  ConstantSet constants;
  const Rotation rotation = add_rotary_table(b, constants, "rotary", rotary_table_f32(3, 8, 1e6));
  EXPECT_EQ(rotation.cos.type(), (ir::TensorType{DType::kF32, {3, 4}}));
  EXPECT_TRUE(constants.is_generated("rotary.cos"));
  EXPECT_TRUE(constants.is_generated("rotary.sin"));
}

std::vector<std::string> op_names(const ir::Program& program) {
  std::vector<std::string> names;
  for (const ir::Op& op : program.ops) names.emplace_back(op.def->name);
  return names;
}

ir::Program rotated(DType dtype) {
  ir::Builder b("p");
  ConstantSet constants;
  const Rotation rotation = add_rotary_table(b, constants, "rotary", rotary_table_f32(3, 8, 1e6));
  b.output("y", rotate_half_split(b, b.input("x", {dtype, {1, 3, 2, 8}}), rotation));
  return b.finish().value();
}

TEST(RotateHalfSplit, IsOneOperationInF32) {
  EXPECT_EQ(op_names(rotated(DType::kF32)), std::vector<std::string>{"rotary"});
}

TEST(RotateHalfSplit, RoundsTablesAndProductsInBf16) {
  const std::vector<std::string> names = op_names(rotated(DType::kBF16));
  EXPECT_EQ(std::count(names.begin(), names.end(), "rotary"), 0);
  EXPECT_EQ(std::count(names.begin(), names.end(), "cast"), 2);
  EXPECT_EQ(std::count(names.begin(), names.end(), "mul"), 2);
  EXPECT_EQ(names.back(), "add");
}

}  // namespace
}  // namespace dif::frontends
