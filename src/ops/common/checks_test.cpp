#include "ops/common/checks.h"

#include <gtest/gtest.h>

namespace dif::ops {

TEST(Broadcast, AlignsShapesAtTheRight) {
  EXPECT_EQ(broadcast({2, 3}, {3}), (Shape{2, 3}));
  EXPECT_EQ(broadcast({3}, {2, 3}), (Shape{2, 3}));
  EXPECT_EQ(broadcast({}, {2, 3}), (Shape{2, 3}));
  EXPECT_EQ(broadcast({4, 1, 1}, {5, 1}), (Shape{4, 5, 1}));
}

TEST(Broadcast, RepeatsOneEvenZeroTimes) {
  EXPECT_EQ(broadcast({1, 3}, {0, 3}), (Shape{0, 3}));
  EXPECT_EQ(broadcast({0}, {1}), (Shape{0}));
}

TEST(Broadcast, RefusesOtherDifferences) {
  EXPECT_EQ(broadcast({2}, {3}), std::nullopt);
  EXPECT_EQ(broadcast({0}, {2}), std::nullopt);
  EXPECT_EQ(broadcast({2, 3}, {2}), std::nullopt);
}

TEST(FromFront, CountsFromTheEndOnlyWithinTheRank) {
  EXPECT_EQ(from_front(-1, 3), 2);
  EXPECT_EQ(from_front(-3, 3), 0);
  EXPECT_EQ(from_front(1, 3), 1);
  EXPECT_EQ(from_front(-4, 3), -4);
  EXPECT_EQ(from_front(INT64_MIN, 3), INT64_MIN);
}

TEST(SaturatingMath, StopsAtTheLargestNumber) {
  EXPECT_EQ(saturating_add(INT64_MAX - 1, 1), INT64_MAX);
  EXPECT_EQ(saturating_add(INT64_MAX, 1), INT64_MAX);
  EXPECT_EQ(saturating_mul(std::int64_t{1} << 40, 64), std::int64_t{1} << 46);
  EXPECT_EQ(saturating_mul(std::int64_t{1} << 40, std::int64_t{1} << 40), INT64_MAX);
}

TEST(ListText, CutsLongLists) {
  EXPECT_EQ(list_text(std::vector<std::int64_t>{}), "[]");
  EXPECT_EQ(list_text(std::vector<std::int64_t>{1, -2}), "[1, -2]");
  EXPECT_EQ(list_text(std::vector<std::int64_t>(9, 7)), "[7, 7, 7, 7, 7, 7, 7, 7, ...]");
}

}  // namespace dif::ops
