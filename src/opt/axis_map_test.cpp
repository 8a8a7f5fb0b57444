#include "opt/axis_map.h"

#include <gtest/gtest.h>

#include "tests/support/program_parser.h"

namespace dif::opt {

namespace {

using Axes = std::vector<std::optional<int>>;
constexpr std::nullopt_t kWhole = std::nullopt;

constexpr std::string_view kListing = R"(program p

inputs
  %0 = x : f32[2, 6, 4, 8]
  %1 = k : f32[2, 5, 4, 8]
  %2 = ids : i32[7]
  %3 = row : f32[8]
  %4 = keep : bool[2, 5]

constants
  %5 = w : f32[3, 8]
  %6 = cos : f32[6, 4]

operations
  %7 = linear(%x, %w) : f32[2, 6, 4, 3]
  %8 = attention(%x, %k, %k, %keep) {causal = false, scale = 1} : f32[2, 6, 4, 8]
  %9 = gather_rows(%k, %ids) : f32[7, 5, 4, 8]
  %10 = add(%x, %row) : f32[2, 6, 4, 8]
  %11 = reshape(%x) {shape = [2, 24, 8]} : f32[2, 24, 8]
  %12 = transpose(%x) {perm = [3, 1, 2, 0]} : f32[8, 6, 4, 2]
  %13 = rotary(%x, %cos, %cos) {interleaved = true} : f32[2, 6, 4, 8]
  %14 = rms_norm(%x, %row) {eps = 1e-06} : f32[2, 6, 4, 8]
  %15 = attention(%x, %x, %x) {causal = true, scale = 1} : f32[2, 6, 4, 8]
  %16 = upsample_nearest(%x) {factor = 2} : f32[2, 6, 8, 16]
  %17 = upsample_nearest(%x) {factor = 2, channels_last = true} : f32[2, 12, 8, 8]

outputs
  a = %7
  b = %8
  c = %9
  d = %10
  e = %11
  f = %12
  g = %13
  h = %14
  i = %15
  j = %16
  k = %17
)";

class AxisMapTest : public ::testing::Test {
 protected:
  /// The axes of the operands that go with `axis` of value %`result`; nothing when they depend on each other.
  std::optional<Axes> axes(ir::ValueId result, int axis) {
    const auto map = axis_map(program_.view(program_.values[result].producer), axis);
    return map ? std::optional(map->operand_axes) : std::nullopt;
  }

  ir::Program program_ = *test::parse_program(kListing);
};

}  // namespace

TEST_F(AxisMapTest, RowsOfALinearGoWithXAndColumnsWithTheWeights) {
  EXPECT_EQ(axes(7, 1), (Axes{1, kWhole}));
  EXPECT_EQ(axes(7, 3), (Axes{kWhole, 0}));
}

TEST_F(AxisMapTest, QueriesAreApartUnlessTheyAreCounted) {
  EXPECT_EQ(axes(8, 0), (Axes{0, 0, 0, 0}));
  EXPECT_EQ(axes(8, 1), (Axes{1, kWhole, kWhole, kWhole}));
  EXPECT_EQ(axes(8, 2), (Axes{2, 2, 2, kWhole}));
  EXPECT_EQ(axes(8, 3), (Axes{kWhole, kWhole, 3, kWhole}));
  EXPECT_EQ(axes(15, 1), std::nullopt);
}

TEST_F(AxisMapTest, GatheredRowsGoWithIdsAndTheirColumnsWithTheTable) {
  EXPECT_EQ(axes(9, 0), (Axes{kWhole, 0}));
  EXPECT_EQ(axes(9, 3), (Axes{3, kWhole}));
}

TEST_F(AxisMapTest, AnOperandThatRepeatsIsNeededWhole) {
  EXPECT_EQ(axes(10, 1), (Axes{1, kWhole}));
  EXPECT_EQ(axes(10, 3), (Axes{3, 0}));
}

TEST_F(AxisMapTest, ViewsKeepTheAxesThatTheyDoNotSplit) {
  EXPECT_EQ(axes(11, 0), (Axes{0}));
  EXPECT_EQ(axes(11, 1), std::nullopt);
  EXPECT_EQ(axes(11, 2), (Axes{3}));
  EXPECT_EQ(axes(12, 0), (Axes{3}));
}

TEST_F(AxisMapTest, RotaryTablesGoWithPositions) {
  EXPECT_EQ(axes(13, 1), (Axes{1, 0, 0}));
  EXPECT_EQ(axes(13, 2), (Axes{2, kWhole, kWhole}));
  EXPECT_EQ(axes(13, 3), std::nullopt);
}

TEST_F(AxisMapTest, ANormJoinsItsAxis) {
  EXPECT_EQ(axes(14, 2), (Axes{2, kWhole}));
  EXPECT_EQ(axes(14, 3), std::nullopt);
}

TEST_F(AxisMapTest, AnUpsamplingKeepsImagesAndChannelsApart) {
  EXPECT_EQ(axes(16, 1), (Axes{1}));
  EXPECT_EQ(axes(16, 3), std::nullopt);
  EXPECT_EQ(axes(17, 0), (Axes{0}));
  EXPECT_EQ(axes(17, 1), std::nullopt);
  EXPECT_EQ(axes(17, 3), (Axes{3}));
}

}  // namespace dif::opt
