#include "opt/pipeline.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "ir/verifier.h"
#include "tests/support/program_parser.h"

namespace dif::opt {

namespace {

constexpr std::string_view kListing = R"(program p

inputs
  %0 = x : f32[4]

constants
  %1 = unread : f32[4]

operations
  %2 = silu(%x) : f32[4]
  %3 = silu(%x) : f32[4]
  %4 = add(%2, %3) : f32[4]

outputs
  y = %4
)";

Status break_program(Editor& editor, Decisions& decisions) {
  (void)decisions;
  const ir::ValueId x = editor.program().inputs[0];
  const_cast<ir::Program&>(editor.program()).values[x].name.clear();
  editor.replace(editor.op(editor.order()[1]).results[0], editor.op(editor.order()[0]).results[0]);
  return ok();
}

}  // namespace

TEST(Pipeline, ReadsDefaultNoneAndNames) {
  EXPECT_EQ(*parse_pipeline("default"), default_pipeline());
  EXPECT_TRUE(parse_pipeline("none")->empty());
  EXPECT_EQ(pipeline_text(*parse_pipeline("simplify,dead_code")), "simplify,dead_code");
  EXPECT_EQ(pipeline_text({}), "none");
}

TEST(Pipeline, DefaultsFollowWhatABackendPrefers) {
  const auto has = [](const Preferences& preferences, const Pass& pass) {
    return std::ranges::count(default_pipeline(preferences), &pass) == 1;
  };
  EXPECT_FALSE(has({}, kChannelsLast));
  EXPECT_TRUE(has({.channels_last = true}, kChannelsLast));
  EXPECT_FALSE(has({.channels_last = true}, kFoldUpsample)) << "it is not exact";
  EXPECT_TRUE(has({.channels_last = true, .folded_upsampling = true}, kFoldUpsample));
  EXPECT_TRUE(has({}, kSplitLinears));
  EXPECT_FALSE(has({.joined_linears = true}, kSplitLinears));
  EXPECT_EQ(*parse_pipeline("default", {.channels_last = true}), default_pipeline({.channels_last = true}));
}

TEST(Pipeline, RefusesAPassThatIsNotThereAndListsThoseThatAre) {
  for (const std::string_view text : {"simplfy", "", "simplify,", ",simplify", "simplify, dead_code"}) {
    const auto pipeline = parse_pipeline(text);
    ASSERT_FALSE(pipeline) << text;
    EXPECT_EQ(pipeline.error().code, ErrorCode::kInvalidInput);
    for (const Pass* pass : all_passes())
      EXPECT_NE(pipeline.error().message.find(pass->name), std::string::npos) << pipeline.error().message;
  }
}

TEST(Pipeline, ReportsWhatEachPassDid) {
  ir::Program program = *test::parse_program(kListing);
  std::vector<std::string_view> seen;
  const auto reports =
      run(program, {&kSimplify, &kCommonSubexpressions, &kDeadCode},
          {.after_pass = [&](const PassReport& report, const ir::Program&) { seen.push_back(report.pass); }});
  ASSERT_TRUE(reports) << reports.error().message;
  ASSERT_EQ(reports->size(), 3U);
  EXPECT_EQ(seen, (std::vector<std::string_view>{"simplify", "common_subexpressions", "dead_code"}));
  EXPECT_FALSE((*reports)[0].changed);
  EXPECT_TRUE((*reports)[1].changed);
  EXPECT_EQ((*reports)[1].operations_before, 3U);
  EXPECT_EQ((*reports)[1].operations_after, 2U);
  EXPECT_EQ((*reports)[1].decisions,
            (Decisions{{"common_subexpressions", "silu %3", "removed", "the same as silu %2"}}));
  EXPECT_EQ((*reports)[2].decisions,
            (Decisions{{"dead_code", "unread", "removed", "nobody reads the constant"}}));
  EXPECT_TRUE(program.constants.empty());
}

TEST(Pipeline, NamesThePassThatBrokeAProgram) {
  const Pass breaker = {.name = "breaker", .summary = "", .function = break_program};
  for (const bool each : {true, false}) {
    ir::Program program = *test::parse_program(kListing);
    const auto reports = run(program, {&breaker}, {.verify_each = each});
    ASSERT_FALSE(reports);
    EXPECT_EQ(reports.error().code, ErrorCode::kInternal);
    EXPECT_NE(reports.error().message.find(each ? "pass breaker broke program p" : "broke program p"),
              std::string::npos)
        << reports.error().message;
  }
}

TEST(Pipeline, PassesHaveUniqueNamesAndASentence) {
  for (const Pass* pass : all_passes()) {
    EXPECT_EQ(*parse_pipeline(pass->name), Pipeline{pass});
    EXPECT_TRUE(pass->summary.ends_with('.')) << pass->name;
  }
}

}  // namespace dif::opt
