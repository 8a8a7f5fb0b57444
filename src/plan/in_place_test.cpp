#include "plan/in_place.h"

#include <gtest/gtest.h>

#include <array>

#include "ir/builder.h"
#include "ops/concat/concat.op.h"
#include "ops/layer_norm/layer_norm.op.h"
#include "ops/reshape/reshape.op.h"
#include "ops/silu/silu.op.h"
#include "ops/slice/slice.op.h"
#include "plan/plan.h"

namespace dif::plan {
namespace {

using ir::OpId;
using ir::Value;
using ir::ValueId;

constexpr PitchRules kAnything = {
    .reads = [](const ir::OpView&, std::size_t, const Pitch&) { return true; },
    .writes = [](const ir::OpView&, const Pitch&) { return true; },
};

ir::Program finish(ir::Builder& b) {
  auto program = b.finish();
  EXPECT_TRUE(program) << program.error().message;
  return std::move(*program);
}

/// Two streams of `batches` x 4 and 12 tokens, joined, seen by silu, and apart again.
struct Streams {
  ValueId text, image, joint, seen, text_again, image_again;
  ir::Program program;

  explicit Streams(std::int64_t batches) {
    ir::Builder b("streams");
    const Value x = b.input("x", {DType::kF32, {batches, 4, 16}}),
                y = b.input("y", {DType::kF32, {batches, 12, 16}});
    const Value a = ops::silu(b, x), c = ops::silu(b, y);
    const Value both = ops::concat(
        b, std::array{ops::reshape(b, a, {batches, 4, 4, 4}), ops::reshape(b, c, {batches, 12, 4, 4})}, 1);
    const Value after = ops::silu(b, both);
    const Value first = ops::slice(b, after, 1, 0, 4), second = ops::slice(b, after, 1, 4, 16);
    b.output("first", ops::silu(b, first));
    b.output("second", ops::silu(b, second));
    text = a.id(), image = c.id(), joint = both.id(), seen = after.id();
    text_again = first.id(), image_again = second.id();
    program = finish(b);
  }
  OpId of(ValueId value) const { return program.values[value].producer; }
};

TEST(InPlace, OneBatchIsJoinedAndCutWithoutACopy) {
  const Streams s(1);
  const std::vector<OpId> chosen = choose_in_place(s.program, {});
  EXPECT_EQ(chosen, (std::vector{s.of(s.joint), s.of(s.text_again), s.of(s.image_again)}));
  const Plan plan = make_plan(s.program, {}, chosen);
  const auto& at = plan.values;
  EXPECT_EQ(at[s.text].offset, at[s.joint].offset);
  EXPECT_EQ(at[s.image].offset, at[s.joint].offset + 4 * 16 * 4);
  EXPECT_EQ(at[s.image_again].offset, at[s.seen].offset + 4 * 16 * 4);
  EXPECT_TRUE(at[s.image].pitch.dense());
  EXPECT_EQ(at[s.text].host, s.joint);
  EXPECT_EQ(plan.unshared_bytes, 2 * 1024 + 256 + 768U) << "both joint values, and what leaves";
}

TEST(InPlace, SeveralBatchesNeedKernelsThatTakeAPitch) {
  const Streams s(2);
  EXPECT_EQ(choose_in_place(s.program, {}), std::vector<OpId>());
  const std::vector<OpId> chosen = choose_in_place(s.program, kAnything);
  EXPECT_EQ(chosen.size(), 3U);
  const Plan plan = make_plan(s.program, {}, chosen);
  EXPECT_EQ(plan.values[s.text].pitch, (Pitch{4 * 16, 16 * 16}));
  EXPECT_EQ(plan.values[s.image].pitch, (Pitch{12 * 16, 16 * 16}));
  EXPECT_EQ(plan.values[s.image].offset, plan.values[s.joint].offset + 4 * 16 * 4);
  EXPECT_EQ(plan.values[s.image_again].pitch, (Pitch{12 * 16, 16 * 16}));
  for (const ir::Op& op : s.program.ops)
    if (op.def->is_view)
      EXPECT_FALSE(plan.values[op.results[0]].pitch.dense()) << "a view lies as what it looks at";
}

TEST(InPlace, WhoCannotReadOrWriteAPitchIsAsked) {
  const Streams s(2);
  PitchRules rules = kAnything;
  rules.writes = [](const ir::OpView& op, const Pitch&) { return op.out().dim(1) == 4; };
  const std::vector<OpId> slices = {s.of(s.text_again), s.of(s.image_again)};
  EXPECT_EQ(choose_in_place(s.program, rules), slices) << "the image cannot be written there";
  rules = kAnything;
  rules.reads = [](const ir::OpView& op, std::size_t, const Pitch&) { return op.in(0).dim(1) == 4; };
  EXPECT_EQ(choose_in_place(s.program, rules), (std::vector{s.of(s.joint), s.of(s.text_again)}));
}

TEST(InPlace, WhatJoinsLivesFromItsFirstPartToItsLastReader) {
  const Streams s(1);
  const Plan plan = make_plan(s.program, {}, choose_in_place(s.program, {}));
  EXPECT_EQ(plan.values[s.joint].life.first, s.of(s.text));
  EXPECT_EQ(plan.values[s.joint].life.last, s.of(s.seen));
  EXPECT_EQ(plan.values[s.seen].life.last, s.program.ops.size() - 1);
}

TEST(InPlace, ValuesThatOthersOwnStayWhereTheyAre) {
  ir::Builder b("owned");
  const ir::TensorType type = {DType::kF32, {1, 4, 16}};
  const Value x = b.input("x", type), w = b.constant("w", type), y = ops::silu(b, x);
  b.output("with input", ops::concat(b, std::array{x, y}, 1));
  b.output("with constant", ops::concat(b, std::array{w, y}, 1));
  b.output("twice the same", ops::concat(b, std::array{y, y}, 1));
  b.output("of input", ops::silu(b, ops::slice(b, x, 1, 0, 2)));
  b.output("of constants", ops::silu(b, ops::concat(b, std::array{w, w}, 1)));
  EXPECT_EQ(choose_in_place(finish(b), kAnything), std::vector<OpId>());
}

TEST(InPlace, NobodyOutsideSeesAPitch) {
  for (const std::int64_t batches : {1, 2}) {
    ir::Builder b("output");
    const Value y = ops::silu(b, b.input("x", {DType::kF32, {batches, 4, 16}}));
    b.output("part", ops::slice(b, y, 1, 2, 4));
    EXPECT_EQ(choose_in_place(finish(b), kAnything).size(), batches == 1 ? 1U : 0U);
  }
}

TEST(InPlace, PartsBeginWhereKernelsMayAssumeIt) {
  for (const std::int64_t start : {1, 16}) {
    ir::Builder b("alignment");
    const Value y = ops::silu(b, b.input("x", {DType::kF32, {64}}));
    b.output("z", ops::silu(b, ops::slice(b, y, 0, start, 64)));
    EXPECT_EQ(choose_in_place(finish(b), kAnything).size(), start == 16 ? 1U : 0U);
  }
}

TEST(InPlace, AValueIsInsideOneOtherOnly) {
  ir::Builder b("wanted twice");
  const ir::TensorType type = {DType::kF32, {1, 4, 16}};
  const Value x = ops::silu(b, b.input("x", type)), y = ops::silu(b, b.input("y", type));
  const Value first = ops::concat(b, std::array{x, y}, 1), second = ops::concat(b, std::array{y, x}, 1);
  b.output("first", ops::silu(b, first));
  b.output("second", ops::silu(b, second));
  const ir::Program program = finish(b);
  const OpId one = program.values[first.id()].producer, other = program.values[second.id()].producer;
  EXPECT_EQ(choose_in_place(program, {}), std::vector{one});
  EXPECT_TRUE(check_plan(program, {}, {other}));
  EXPECT_FALSE(check_plan(program, {}, {one, other}));
  EXPECT_FALSE(check_plan(program, {}, {one, one}));
  EXPECT_FALSE(check_plan(program, {}, {0})) << "silu has to run";
  EXPECT_FALSE(check_plan(program, {}, {99}));
}

TEST(InPlace, AGroupWritesWhatLiesInside) {
  ir::Builder b("group");
  const ir::TensorType type = {DType::kF32, {1, 4, 16}};
  const Value x = ops::layer_norm(b, ops::silu(b, b.input("x", type)), 1e-6f),
              y = ops::silu(b, b.input("y", type));
  const Value both = ops::concat(b, std::array{x, y}, -1);
  const Value after = ops::silu(b, both);
  b.output("after", after);
  const ir::Program program = finish(b);
  const FusionRules rules = {.accepts = [](const ir::OpView&) -> Status { return ok(); }};
  ASSERT_EQ(form_groups(program, rules).groups.size(), 1U);
  const std::vector<OpId> chosen = choose_in_place(program, kAnything);
  ASSERT_EQ(chosen.size(), 1U);
  const Fusion fusion = form_groups(program, rules, chosen);
  ASSERT_EQ(fusion.groups.size(), 1U) << "silu and norm of one operand";
  EXPECT_EQ(fusion.groups[0].outputs, std::vector{x.id()});
  EXPECT_TRUE(check_plan(program, fusion.groups, chosen));
  const Plan plan = make_plan(program, fusion.groups, chosen);
  EXPECT_EQ(plan.values[x.id()].pitch, (Pitch{16, 32}));
}

}  // namespace
}  // namespace dif::plan
