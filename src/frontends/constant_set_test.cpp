#include "frontends/constant_set.h"

#include <gtest/gtest.h>

#include "ir/builder.h"
#include "ops/add/add.op.h"

namespace dif::frontends {
namespace {

ir::Program sum_of_constants() {
  ir::Builder b("sum");
  const ir::Value x = b.constant("x", {DType::kF32, {2}});
  const ir::Value y = b.constant("y", {DType::kF32, {2}});
  b.output("z", ops::add(b, x, y));
  return b.finish().value();
}

TEST(ConstantSet, BindsInTheOrderOfTheProgram) {
  ConstantSet set;
  set.add_table("y", {2}, {3, 4});
  set.add_table("x", {2}, {1, 2});
  const auto bound = set.bind(sum_of_constants());
  ASSERT_TRUE(bound) << bound.error().message;
  ASSERT_EQ(bound->size(), 2u);
  EXPECT_EQ(reinterpret_cast<const float*>(bound->at(0).data)[1], 2);
  EXPECT_EQ(reinterpret_cast<const float*>(bound->at(1).data)[1], 4);
}

TEST(ConstantSet, TablesOutliveTheSetTheyWereCopiedFrom) {
  ConstantSet copy;
  {
    ConstantSet set;
    set.add_table("x", {2}, {1, 2});
    copy = set;
  }
  EXPECT_EQ(reinterpret_cast<const float*>(copy.find("x")->data)[1], 2);
}

TEST(ConstantSet, TellsTablesFromViews) {
  ConstantSet set;
  const float data[2] = {};
  set.add_table("table", {2}, {1, 2});
  set.add_view("view", {{DType::kF32, {2}}, std::as_bytes(std::span(data)).data()});
  EXPECT_TRUE(set.is_generated("table"));
  EXPECT_FALSE(set.is_generated("view"));
  EXPECT_FALSE(set.is_generated("neither"));
}

TEST(ConstantSet, MissingConstantIsNamed) {
  ConstantSet set;
  set.add_table("x", {2}, {1, 2});
  const auto bound = set.bind(sum_of_constants());
  ASSERT_FALSE(bound);
  EXPECT_EQ(bound.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(bound.error().message, "program sum needs the constant y, which nothing provides");
}

TEST(ConstantSet, ConstantOfAnotherTypeIsNamedWithBothTypes) {
  ConstantSet set;
  set.add_table("x", {2}, {1, 2});
  set.add_table("y", {3}, {1, 2, 3});
  const auto bound = set.bind(sum_of_constants());
  ASSERT_FALSE(bound);
  EXPECT_EQ(bound.error().code, ErrorCode::kInvalidInput);
  EXPECT_EQ(bound.error().message, "program sum needs the constant y as f32[2], but it is f32[3]");
}

}  // namespace
}  // namespace dif::frontends
