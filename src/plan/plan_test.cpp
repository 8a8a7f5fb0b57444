#include "plan/plan.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "ir/builder.h"
#include "ops/add/add.op.h"
#include "ops/cast/cast.op.h"
#include "ops/reshape/reshape.op.h"
#include "ops/silu/silu.op.h"
#include "plan/lifetimes.h"
#include "plan/plan_text.h"

namespace dif::plan {
namespace {

using ir::TensorType;

const TensorType kRow = {DType::kF32, {1, 64}};

ir::Program finish(ir::Builder& b) {
  auto program = b.finish();
  EXPECT_TRUE(program) << program.error().message;
  return std::move(*program);
}

TEST(Plan, BuffersThatNeverMeetShareBytes) {
  ir::Builder b("chain");
  ir::Value x = b.input("x", kRow);
  for (int i = 0; i < 6; ++i) x = ops::silu(b, x);
  b.output("y", x);
  const Plan plan = make_plan(finish(b));
  EXPECT_EQ(plan.arena_bytes, 2 * 256U);  // an operation's operand and result, never more
  EXPECT_EQ(plan.unshared_bytes, 6 * 256U);
}

TEST(Plan, SizesBeyond64BitsDoNotWrapAround) {
  ir::Builder b("vast");
  const ir::Value x = b.input("x", {DType::kF32, {std::int64_t{1} << 40, std::int64_t{1} << 19}});
  for (int i = 0; i < 9; ++i) b.output(std::to_string(i), ops::silu(b, x));  // 2^61 bytes each, all alive
  const Plan plan = make_plan(finish(b));
  EXPECT_EQ(plan.arena_bytes, UINT64_MAX);
  EXPECT_EQ(plan.unshared_bytes, UINT64_MAX);
}

TEST(Plan, OutputsKeepTheirBytesUntilTheEnd) {
  ir::Builder b("two outputs");
  const ir::Value x = b.input("x", kRow);
  const ir::Value early = ops::silu(b, x);
  ir::Value y = x;
  for (int i = 0; i < 4; ++i) y = ops::silu(b, y);
  b.output("early", early);
  b.output("y", y);
  const ir::Program program = finish(b);
  const Plan plan = make_plan(program);
  for (const ir::Op& op : program.ops) {
    const ir::ValueId result = op.results.front();
    if (result == early.id()) continue;
    EXPECT_NE(plan.values[result].offset, plan.values[early.id()].offset);
  }
}

TEST(Plan, ViewsShareTheBytesOfWhatTheyLookAtAndKeepItAlive) {
  ir::Builder b("view");
  const ir::Value x = b.input("x", kRow);
  const ir::Value y = ops::silu(b, x);
  const ir::Value view = ops::reshape(b, y, Shape{64});
  const ir::Value other = ops::silu(b, x);
  const ir::Value end = ops::add(b, view, ops::reshape(b, other, Shape{64}));
  b.output("end", end);
  const Plan plan = make_plan(finish(b));
  EXPECT_EQ(plan.values[view.id()].root, y.id());
  EXPECT_EQ(plan.values[view.id()].offset, plan.values[y.id()].offset);
  EXPECT_NE(plan.values[other.id()].offset, plan.values[y.id()].offset);
}

TEST(Plan, WhatDependsOnConstantsAloneIsFolded) {
  ir::Builder b("fold");
  const ir::Value x = b.input("x", kRow);
  const ir::Value w = b.constant("w", {DType::kBF16, {1, 64}});
  const ir::Value wide = ops::cast(b, w, DType::kF32);
  b.output("y", ops::add(b, x, wide));
  const Plan plan = make_plan(finish(b));
  EXPECT_EQ(plan.folded, (std::vector<bool>{true, false}));
  EXPECT_EQ(plan.values[wide.id()].storage, Storage::kFolded);
  EXPECT_EQ(plan.values[w.id()].storage, Storage::kConstant);
}

TEST(Plan, IsPrintedValueByValue) {
  ir::Builder b("print");
  const ir::Value x = b.input("x", kRow);
  const ir::Value w = b.constant("w", {DType::kBF16, {1, 64}});
  const ir::Value sum = ops::add(b, x, ops::cast(b, w, DType::kF32));
  b.output("y", ops::silu(b, ops::reshape(b, sum, Shape{64})));
  const ir::Program program = finish(b);
  EXPECT_EQ(assignments_text(program, make_plan(program)), R"(%0 input : f32[1, 64]
%1 constant : bf16[1, 64]
%2 folded : f32[1, 64]
%3 arena 0 + 256, operations 1 to 3 : f32[1, 64]
%4 looks at %3 : f32[64]
%5 arena 256 + 256, operations 3 to 4 : f32[64]
)");
}

bool meet(const Lifetime& a, const Lifetime& b) {
  return a.first <= b.last && b.first <= a.last;
}

TEST(Plan, RefusesGroupsFromOutsideThatCannotBe) {
  ir::Builder b("groups");
  const ir::Value x = b.input("x", kRow), w = b.constant("w", kRow);
  const ir::Value folded = ops::silu(b, w);              // 0
  const ir::Value y = ops::add(b, x, folded);            // 1
  const ir::Value view = ops::reshape(b, y, Shape{64});  // 2
  const ir::Value z = ops::silu(b, view);                // 3
  b.output("z", ops::add(b, ops::silu(b, z), view));     // 4, 5
  const ir::Program program = finish(b);
  const auto check = [&](std::vector<Group> groups) { return check_plan(program, groups).has_value(); };
  EXPECT_TRUE(check({{{1, 3}, 1, {x.id()}, {y.id(), z.id()}}, {{4, 5}, 1, {}, {}}}));
  EXPECT_FALSE(check({{{}, 1, {}, {}}}));
  EXPECT_FALSE(check({{{1, 9}, 1, {}, {}}}));
  EXPECT_FALSE(check({{{1, 3}, 1, {}, {}}, {{3, 4}, 1, {}, {}}}));
  EXPECT_FALSE(check({{{1, 2}, 1, {}, {}}})) << "a view";
  EXPECT_FALSE(check({{{0, 1}, 1, {}, {}}})) << "a folded operation";
  EXPECT_FALSE(check({{{1, 3}, 1, {77}, {}}}));
  EXPECT_FALSE(check({{{1, 4}, 1, {}, {}}, {{3, 5}, 1, {}, {}}})) << "3 needs 1, 4 needs 3";
}

/// Two values may share a byte only when their lifetimes do not meet: checked on random programs by brute
/// force.
TEST(Plan, NeverOverlapsLivingValuesInRandomPrograms) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    ir::Builder b("random");
    std::vector<ir::Value> values = {b.input("x", kRow)};
    for (int i = 0; i < 40; ++i) {
      const ir::Value x = values[random() % values.size()];
      const ir::Value y = values[random() % values.size()];
      switch (random() % 3) {
        case 0:
          values.push_back(ops::silu(b, x));
          break;
        case 1:
          values.push_back(ops::add(b, x, y));
          break;
        default:
          values.push_back(ops::reshape(b, x, Shape{1, 64}));
          break;
      }
    }
    b.output("y", values.back());
    const ir::Program program = finish(b);
    const Plan plan = make_plan(program);
    const auto roots = view_roots(program);
    for (ir::ValueId p = 0; p < program.values.size(); ++p) {
      for (ir::ValueId q = 0; q < p; ++q) {
        if (roots[p] != p || roots[q] != q) continue;
        if (plan.values[p].storage != Storage::kArena || plan.values[q].storage != Storage::kArena) continue;
        const bool live_together = meet(plan.values[p].life, plan.values[q].life);
        const bool overlap = plan.values[p].offset < plan.values[q].offset + program.type(q).bytes() &&
                             plan.values[q].offset < plan.values[p].offset + program.type(p).bytes();
        EXPECT_FALSE(live_together && overlap) << "%" << p << " and %" << q;
        EXPECT_LE(plan.values[p].offset + program.type(p).bytes(), plan.arena_bytes);
      }
    }
  }
}

}  // namespace
}  // namespace dif::plan
