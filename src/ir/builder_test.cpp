#include "ir/builder.h"

#include <gtest/gtest.h>

#include "ops/add/add.op.h"
#include "ops/linear/linear.op.h"
#include "ops/reshape/reshape.op.h"
#include "ops/upsample_nearest/upsample_nearest.op.h"

namespace dif::ir {

TEST(Builder, InfersTypesAsItGoes) {
  Builder b("p");
  const Value x = b.input("x", {DType::kBF16, {2, 3}}), w = b.constant("w", {DType::kBF16, {5, 3}});
  const Value y = ops::linear(b, x, w);
  EXPECT_EQ(y.type(), (TensorType{DType::kBF16, {2, 5}}));
  EXPECT_EQ(y.dim(-1), 5);
  EXPECT_EQ(y.rank(), 2);
}

TEST(Builder, GivesOneValuePerConstantName) {
  Builder b("p");
  const Value first = b.constant("w", {DType::kF32, {2}}), second = b.constant("w", {DType::kF32, {2}});
  EXPECT_EQ(first.id(), second.id());
  b.output("y", ops::add(b, first, second));
  const auto program = b.finish();
  ASSERT_TRUE(program.has_value()) << program.error().message;
  EXPECT_EQ(program->constants.size(), 1u);
}

TEST(Builder, RefusesOneConstantNameWithTwoTypes) {
  Builder b("p");
  b.output("y", b.constant("w", {DType::kF32, {2}}));
  b.constant("w", {DType::kF32, {3}});
  const auto program = b.finish();
  ASSERT_FALSE(program.has_value());
  EXPECT_NE(program.error().message.find("constant w is used as f32[2] and as f32[3]"), std::string::npos)
      << program.error().message;
}

TEST(Builder, PoisonsWhatFollowsTheFirstError) {
  Builder b("p");
  const Value x = b.input("x", {DType::kF32, {2, 3}});
  const Value bad = ops::reshape(b, x, {7});
  EXPECT_FALSE(bad.valid());
  EXPECT_EQ(bad.rank(), 0);
  EXPECT_EQ(bad.dim(0), 0);
  EXPECT_EQ(bad.dim(-3), 0);
  const Value worse = ops::linear(b, bad, bad);
  EXPECT_FALSE(worse.valid());
  b.output("y", worse);
  b.boundary("end", worse);
  const auto program = b.finish();
  ASSERT_FALSE(program.has_value());
  EXPECT_TRUE(program.error().message.starts_with("reshape C1: ")) << program.error().message;
}

TEST(Builder, SaysWhichModuleAnErrorHappenedIn) {
  Builder b("p");
  const Value x = b.input("x", {DType::kF32, {2, 3}});
  {
    Builder::Scope block(b, "blocks.3");
    Builder::Scope attention(b, "attn");
    ops::reshape(b, x, {7});
  }
  const auto program = b.finish();
  ASSERT_FALSE(program.has_value());
  EXPECT_TRUE(program.error().message.ends_with(" (while building blocks.3.attn)"))
      << program.error().message;
}

TEST(Builder, RecordsTheModuleOfEachOperation) {
  Builder b("p");
  const Value x = b.input("x", {DType::kF32, {2}});
  const Value first = ops::add(b, x, x);
  Value second;
  {
    Builder::Scope outer(b, "outer");
    {
      Builder::Scope inner(b, "inner");
      second = ops::add(b, first, x);
      b.boundary("", second);
    }
    b.boundary("norm", second);
    second = ops::add(b, second, x);
  }
  b.boundary("last", second);
  b.output("y", second);
  const auto program = b.finish();
  ASSERT_TRUE(program.has_value()) << program.error().message;
  EXPECT_EQ(program->provenance.op_modules, (std::vector<std::string>{"", "outer.inner", "outer"}));
  std::vector<std::string> names;
  for (const Provenance::Boundary& boundary : program->provenance.boundaries) names.push_back(boundary.name);
  EXPECT_EQ(names, (std::vector<std::string>{"outer.inner", "outer.norm", "last"}));
}

TEST(Builder, RefusesTypesThatNoMemoryHoldsAtOnce) {
  Builder b("p");
  Value x = b.input("x", {DType::kF32, {1, 1, 1 << 20, 1 << 20}});
  for (int i = 0; i < 10; ++i) x = ops::upsample_nearest(b, x, 64);
  EXPECT_FALSE(x.valid());
  EXPECT_FALSE(b.finish().has_value());
  Builder other("p");
  other.input("x", {DType::kF32, {-1}});
  EXPECT_FALSE(ops::add(other, {}, {}).valid());
  EXPECT_FALSE(other.finish().has_value());
}

TEST(Builder, NeedsAnOutput) {
  Builder b("p");
  b.input("x", {DType::kF32, {2}});
  EXPECT_FALSE(b.finish().has_value());
}

}  // namespace dif::ir
