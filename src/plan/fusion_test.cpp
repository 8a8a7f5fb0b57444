#include "plan/fusion.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "ir/builder.h"
#include "ops/add/add.op.h"
#include "ops/mul/mul.op.h"
#include "ops/silu/silu.op.h"
#include "plan/plan.h"
#include "plan/plan_text.h"
#include "tests/support/program_parser.h"

namespace dif::plan {
namespace {

Status accept_all(const ir::OpView&) {
  return ok();
}

Status accept_no_silu(const ir::OpView& op) {
  if (op.def().name == "silu") return fail(ErrorCode::kDeclined, "no exponential");
  return ok();
}

constexpr FusionRules kAll = {accept_all};

ir::Program parse(std::string_view text) {
  auto program = test::parse_program(text);
  EXPECT_TRUE(program) << program.error().message;
  return program ? std::move(*program) : ir::Program();
}

std::string groups(std::string_view text, const FusionRules& rules = kAll) {
  const ir::Program program = parse(text);
  return groups_text(program, form_groups(program, rules));
}

/// The middle of a transformer block: gate, residual, norm, modulation between two products.
constexpr std::string_view kBlock = R"(program block
inputs
  %0 = x : f32[2, 64, 192]
  %1 = gate : f32[1, 192]
  %2 = scale : f32[1, 192]
  %3 = shift : f32[1, 192]
constants
  %4 = w : f32[192, 192]
operations
  %5 = linear(%x, %w) : f32[2, 64, 192]
  %6 = mul(%gate, %5) : f32[2, 64, 192]
  %7 = add(%x, %6) : f32[2, 64, 192]
  %8 = layer_norm(%7) {eps = 1e-06} : f32[2, 64, 192]
  %9 = add_scalar(%scale) {value = 1} : f32[1, 192]
  %10 = mul(%9, %8) : f32[2, 64, 192]
  %11 = add(%10, %shift) : f32[2, 64, 192]
  %12 = linear(%11, %w) : f32[2, 64, 192]
  %13 = mul(%gate, %12) : f32[2, 64, 192]
  %14 = add(%7, %13) : f32[2, 64, 192]
outputs
  y = %14
)";

TEST(Fusion, AWholeTakesNothingInAndIsInNothing) {
  const ir::Program program = parse(R"(program swiglu
inputs
  %0 = x : f32[2, 64, 32]
constants
  %1 = a : f32[48, 32]
  %2 = b : f32[48, 32]
operations
  %3 = linear(%x, %a) : f32[2, 64, 48]
  %4 = linear(%x, %b) : f32[2, 64, 48]
  %5 = silu(%3) : f32[2, 64, 48]
  %6 = mul(%5, %4) : f32[2, 64, 48]
  %7 = add(%6, %6) : f32[2, 64, 48]
  %8 = silu(%7) : f32[2, 64, 48]
outputs
  y = %8
)");
  const Group whole = whole_groups(program, {{0, 1, 2, 3}}).front();
  EXPECT_EQ(whole.rows, 128);
  EXPECT_EQ(whole.inputs, (std::vector<ir::ValueId>{0, 1, 2}));
  EXPECT_EQ(whole.outputs, (std::vector<ir::ValueId>{6}));
  const Fusion fusion = form_groups(program, kAll, {}, {whole});
  ASSERT_EQ(fusion.groups.size(), 1U);
  EXPECT_EQ(fusion.groups[0].ops, (std::vector<ir::OpId>{4, 5}));
}

TEST(Fusion, JoinsGateResidualNormAndModulation) {
  EXPECT_EQ(groups(kBlock), R"(group 0, 128 rows: 1 mul, 2 add, 3 layer_norm, 5 mul, 6 add
  reads %1 %5 %0 %9 %3
  writes %7 %11
  ends at 7 linear: linear does not work row by row
  ends at 9 add: operation 7 (linear) runs in between
group 1, 128 rows: 8 mul, 9 add
  reads %1 %12 %7
  writes %14
)");
}

TEST(Fusion, AResultThatRowsShareIsReadFromMemory) {
  const Fusion fusion = form_groups(parse(kBlock), kAll);
  ASSERT_FALSE(fusion.refusals.empty());
  EXPECT_EQ(fusion.refusals.front().op, 5U);
  EXPECT_EQ(fusion.refusals.front().producer, 4U);
  EXPECT_EQ(fusion.refusals.front().reason, "operation 5 (mul) does not read add_scalar row by row");
}

TEST(Fusion, AViewThatCutsRowsElsewhereEndsAGroup) {
  const Fusion fusion = form_groups(parse(R"(program cut
inputs
  %0 = x : f32[4, 6]
operations
  %1 = silu(%x) : f32[4, 6]
  %2 = reshape(%1) {shape = [3, 8]} : f32[3, 8]
  %3 = silu(%2) : f32[3, 8]
outputs
  y = %3
)"),
                                    kAll);
  EXPECT_TRUE(fusion.groups.empty());
  ASSERT_EQ(fusion.refusals.size(), 1U);
  EXPECT_EQ(fusion.refusals.front().reason, "their rows differ: 4 and 3");
}

TEST(Fusion, ViewsInsideAGroupAreImpliedAndRowsHoldWholeHeads) {
  EXPECT_EQ(groups(R"(program heads
inputs
  %0 = qkv : f32[2, 64, 576]
  %1 = cos : f32[64, 16]
  %2 = sin : f32[64, 16]
  %3 = w : f32[32]
operations
  %4 = slice(%qkv) {axis = 2, start = 192, end = 384} : f32[2, 64, 192]
  %5 = reshape(%4) {shape = [2, 64, 6, 32]} : f32[2, 64, 6, 32]
  %6 = rms_norm(%5, %w) {eps = 1e-06} : f32[2, 64, 6, 32]
  %7 = rotary(%6, %cos, %sin) {interleaved = true} : f32[2, 64, 6, 32]
  %8 = transpose(%7) {perm = [0, 2, 1, 3]} : f32[2, 6, 64, 32]
outputs
  y = %8
)"),
            R"(group 0, 128 rows: 0 slice, 2 rms_norm, 3 rotary
  reads %0 %3 %1 %2
  writes %7
  ends at 4 transpose: transpose does not work row by row
)");
}

constexpr std::string_view kImage = R"(program image
inputs
  %0 = x : f32[1, 4, 5, 8]
constants
  %1 = w : f32[8]
  %2 = filters : f32[8, 3, 3, 8]
operations
  %3 = group_norm(%x, %w, %w) {eps = 1e-06, groups = 2, channels_last = true} : f32[1, 4, 5, 8]
  %4 = silu(%3) : f32[1, 4, 5, 8]
  %5 = conv2d(%4, %filters) {strides = [1, 1], pads = [1, 1, 1, 1], groups = 1, channels_last = true} : f32[1, 4, 5, 8]
  %6 = add(%x, %5) : f32[1, 4, 5, 8]
  %7 = layer_norm(%6) {eps = 1e-06} : f32[1, 4, 5, 8]
outputs
  y = %7
)";

TEST(Fusion, AnOperationWithoutRowsLeadsWhatIsDoneToItsElements) {
  const FusionRules rules = {.accepts = kAll.accepts, .leads = [](const ir::OpView&) { return ok(); }};
  const ir::Program program = parse(kImage);
  EXPECT_EQ(groups_text(program, form_groups(program, rules)), R"(group 0, 20 rows: 0 group_norm, 1 silu
  reads %0 %1
  writes %4
  ends at 2 conv2d: operation 2 (conv2d) does not work row by row and is not the first
group 1, 20 rows: 2 conv2d, 3 add
  reads %4 %2 %0
  writes %6
  ends at 4 layer_norm: operation 4 (layer_norm) is not element by element behind conv2d
)");
}

TEST(Fusion, WithoutALeaderThereAreNoSuchGroups) {
  EXPECT_EQ(groups(kImage), R"(group 0, 20 rows: 3 add, 4 layer_norm
  reads %0 %5
  writes %7
)");
}

TEST(Fusion, SwiGluIsOneGroupThatWritesOnce) {
  EXPECT_EQ(groups(R"(program swiglu
inputs
  %0 = x : bf16[8, 64]
operations
  %1 = slice(%x) {axis = 1, start = 0, end = 32} : bf16[8, 32]
  %2 = slice(%x) {axis = 1, start = 32, end = 64} : bf16[8, 32]
  %3 = silu(%1) : bf16[8, 32]
  %4 = mul(%3, %2) : bf16[8, 32]
outputs
  y = %4
)"),
            R"(group 0, 8 rows: 0 slice, 1 slice, 2 silu, 3 mul
  reads %0
  writes %4
)");
}

TEST(Fusion, SlicesAndConcatsOfOtherAxesMixRows) {
  EXPECT_EQ(groups(R"(program sequence
inputs
  %0 = x : f32[8, 64]
operations
  %1 = silu(%x) : f32[8, 64]
  %2 = slice(%1) {axis = 0, start = 0, end = 4} : f32[4, 64]
  %3 = silu(%2) : f32[4, 64]
  %4 = concat(%1, %3) {axis = 0} : f32[12, 64]
  %5 = concat(%4, %4) {axis = 1} : f32[12, 128]
  %6 = silu(%5) : f32[12, 128]
outputs
  y = %6
)"),
            R"(group 0, 12 rows: 4 concat, 5 silu
  reads %4
  writes %6
)");
}

TEST(Fusion, ABackendSaysWhatItsGroupsHoldAndHowMany) {
  constexpr std::string_view chain = R"(program chain
inputs
  %0 = x : f32[8, 64]
operations
  %1 = add(%x, %x) : f32[8, 64]
  %2 = mul(%1, %x) : f32[8, 64]
  %3 = silu(%2) : f32[8, 64]
  %4 = mul(%3, %1) : f32[8, 64]
outputs
  y = %4
)";
  EXPECT_EQ(groups(chain, {}), "");
  EXPECT_EQ(groups(chain, {accept_no_silu}), R"(group 0, 8 rows: 0 add, 1 mul
  reads %0
  writes %1 %2
  ends at 2 silu: no exponential
  ends at 3 mul: operation 2 (silu) runs in between
)");
  EXPECT_EQ(groups(chain, {accept_all, 2}), R"(group 0, 8 rows: 0 add, 1 mul
  reads %0
  writes %1 %2
  ends at 2 silu: together they would be 3 operations, at most 2 are one group
  ends at 3 mul: together they would be 4 operations, at most 2 are one group
group 1, 8 rows: 2 silu, 3 mul
  reads %2 %1
  writes %4
)");
}

TEST(Fusion, FoldedOperationsAndProgramsWithoutChainsStayAsTheyAre) {
  EXPECT_EQ(groups(R"(program products
inputs
  %0 = x : f32[8, 32]
constants
  %1 = w : bf16[32, 32]
operations
  %2 = cast(%w) {dtype = f32} : f32[32, 32]
  %3 = add_scalar(%2) {value = 1} : f32[32, 32]
  %4 = linear(%x, %3) : f32[8, 32]
  %5 = silu(%4) : f32[8, 32]
  %6 = linear(%5, %2) : f32[8, 32]
outputs
  y = %6
)"),
            "");
}

TEST(Fusion, AnOutputOfTheProgramIsWrittenEvenThroughAView) {
  EXPECT_EQ(groups(R"(program outputs
inputs
  %0 = x : f32[8, 64]
operations
  %1 = add(%x, %x) : f32[8, 64]
  %2 = reshape(%1) {shape = [512]} : f32[512]
  %3 = silu(%1) : f32[8, 64]
outputs
  early = %2
  y = %3
)"),
            R"(group 0, 8 rows: 0 add, 2 silu
  reads %0
  writes %1 %3
)");
}

TEST(PlanWithGroups, WhatLivesInsideAGroupTakesNoMemory) {
  const ir::Program program = parse(kBlock);
  const Plan apart = make_plan(program);
  const Plan joined = make_plan(program, form_groups(program, kAll).groups);
  EXPECT_EQ(assignments_text(program, joined), R"(%0 input : f32[2, 64, 192]
%1 input : f32[1, 192]
%2 input : f32[1, 192]
%3 input : f32[1, 192]
%4 constant : f32[192, 192]
%5 arena 0 + 98304, steps 0 to 2 : f32[2, 64, 192]
%6 register : f32[2, 64, 192]
%7 arena 98304 + 98304, steps 2 to 4 : f32[2, 64, 192]
%8 register : f32[2, 64, 192]
%9 arena 294912 + 768, steps 1 to 2 : f32[1, 192]
%10 register : f32[2, 64, 192]
%11 arena 196608 + 98304, steps 2 to 3 : f32[2, 64, 192]
%12 arena 0 + 98304, steps 3 to 4 : f32[2, 64, 192]
%13 register : f32[2, 64, 192]
%14 arena 196608 + 98304, steps 4 to 5 : f32[2, 64, 192]
)");
  EXPECT_EQ(apart.unshared_bytes - joined.unshared_bytes, 4 * 98304U);
}

/// On random programs: each step follows what it reads from, every operation has one step, and what leaves a
/// group is written.
TEST(PlanWithGroups, StepsFollowWhatTheyReadInRandomPrograms) {
  std::mt19937 random(11);
  std::size_t n_groups = 0;
  for (int round = 0; round < 60; ++round) {
    ir::Builder b("random");
    std::vector<ir::Value> values = {b.input("x", {DType::kF32, {4, 64}})};
    const ir::Value row = b.input("row", {DType::kF32, {1, 64}});
    for (int i = 0; i < 40; ++i) {
      const ir::Value x = values[random() % values.size()];
      const ir::Value y = values[values.size() - 1 - random() % std::min<std::size_t>(values.size(), 4)];
      values.push_back(random() % 4 == 0 ? ops::silu(b, x) : ops::add(b, x, random() % 5 == 0 ? row : y));
    }
    b.output("y", values.back());
    auto program = b.finish();
    ASSERT_TRUE(program);
    const Plan plan = make_plan(*program, form_groups(*program, {accept_no_silu, 6}).groups);
    n_groups += plan.groups.size();

    std::vector<int> times_run(program->ops.size());
    std::vector<bool> written(program->values.size());
    for (const ir::ValueId input : program->inputs) written[input] = true;
    for (const Step& step : plan.steps) {
      std::vector<ir::OpId> ops = {step.op};
      if (step.group != ir::kNoId) ops = plan.groups[step.group].ops;
      std::vector<bool> inside(program->values.size());
      for (const ir::OpId op : ops) {
        ++times_run[op];
        for (const ir::ValueId operand : program->ops[op].operands)
          EXPECT_TRUE(written[operand] || inside[operand]) << "operation " << op << " reads %" << operand;
        inside[program->ops[op].results.front()] = true;
      }
      for (const ir::OpId op : ops) {
        const ir::ValueId result = program->ops[op].results.front();
        written[result] = plan.values[result].storage == Storage::kArena;
      }
    }
    EXPECT_EQ(times_run, std::vector<int>(program->ops.size(), 1));
    EXPECT_TRUE(written[program->outputs.front().value]);
  }
  EXPECT_GT(n_groups, 60U);
}

}  // namespace
}  // namespace dif::plan
