#include "opt/rule.h"

#include <gtest/gtest.h>

#include "ir/printer.h"
#include "ops/add/add.op.h"
#include "ops/mul/mul.op.h"
#include "ops/mul_scalar/mul_scalar.op.h"
#include "ops/silu/silu.op.h"
#include "tests/support/program_parser.h"

namespace dif::opt {

namespace {

constexpr std::string_view kListing = R"(program p

inputs
  %0 = x : f32[4]
  %1 = y : f32[4]

constants

operations
  %2 = add(%x, %x) : f32[4]
  %3 = add(%x, %y) : f32[4]
  %4 = silu(%2) : f32[4]
  %5 = mul(%4, %3) : f32[4]

outputs
  z = %5
)";

/// The operations after the rules, one a line.
std::string applied(const std::vector<Rule>& rules, Decisions& decisions) {
  ir::Program program = *test::parse_program(kListing);
  Editor editor(program);
  const Status status = apply(editor, rules, decisions);
  if (!status) return status.error().message;
  editor.finish();
  std::string text;
  for (ir::OpId id = 0; id < program.ops.size(); ++id) text += ir::op_text(program, id) + "\n";
  return text;
}

const Rule kTwice = {.name = "a sum with itself is a product with 2",
                     .from = Term(ops::kAdd, {"x", "x"}),
                     .to = Term(ops::kMulScalar, {"x"}).with([](const Match&) { return Attrs{2.0f}; })};

}  // namespace

TEST(Rules, TheSameVariableStandsForTheSameValue) {
  Decisions decisions;
  EXPECT_EQ(applied({kTwice}, decisions),
            "%2 = mul_scalar(%x) {value = 2} : f32[4]\n"
            "%3 = add(%x, %y) : f32[4]\n"
            "%4 = silu(%2) : f32[4]\n"
            "%5 = mul(%4, %3) : f32[4]\n");
  ASSERT_EQ(decisions.size(), 1U);
  EXPECT_EQ(decisions[0].subject, "add %2");
  EXPECT_EQ(decisions[0].verdict, "rewritten");
  EXPECT_EQ(decisions[0].reason, kTwice.name);
}

TEST(Rules, AConditionHoldsARuleBack) {
  Rule rule = kTwice;
  rule.when = [](const Match& m) { return m.type("x").rank() == 2; };
  Decisions decisions;
  applied({rule}, decisions);
  EXPECT_TRUE(decisions.empty());
}

TEST(Rules, MatchThroughSeveralOperationsAndRepeatUntilNothingMatches) {
  const Rule unwrap = {.name = "silu of anything", .from = Term(ops::kSilu, {"v"}), .to = "v"};
  Decisions decisions;
  EXPECT_EQ(applied({unwrap, kTwice}, decisions),
            "%2 = mul_scalar(%x) {value = 2} : f32[4]\n"
            "%3 = add(%x, %y) : f32[4]\n"
            "%4 = mul(%2, %3) : f32[4]\n");
  EXPECT_EQ(decisions.size(), 2U);
}

TEST(Rules, ThatUndoEachOtherAreAnErrorAndNoHang) {
  const Rule swap = {
      .name = "y then x", .from = Term(ops::kMul, {"a", "b"}), .to = Term(ops::kMul, {"b", "a"})};
  Decisions decisions;
  EXPECT_EQ(applied({swap}, decisions), "rewrite rules do not come to an end");
}

TEST(Rules, ARightSideThatIsNotLegalNamesTheRule) {
  const Rule wrong = {.name = "wrong",
                      .from = Term(ops::kSilu, {"v"}),
                      .to = Term(ops::kMulScalar, {"v"}).with([](const Match&) { return Attrs{}; })};
  Decisions decisions;
  EXPECT_NE(applied({wrong}, decisions).find("rule \"wrong\""), std::string::npos);
}

}  // namespace dif::opt
