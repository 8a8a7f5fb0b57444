#include "pipelines/plan_export.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "pipelines/plan_report.h"
#include "plan/plan_file.h"
#include "tests/support/paths.h"
#include "tests/support/program_parser.h"

namespace dif {
namespace {

using nlohmann::json;

ir::Program sample() {
  auto program = test::parse_program(R"(program sample
inputs
  %0 = x : f32[4, 32]
constants
  %1 = w : bf16[32, 32]
operations
  %2 = cast(%w) {dtype = f32} : f32[32, 32]
  %3 = linear(%x, %2) : f32[4, 32]
  %4 = silu(%3) : f32[4, 32]
  %5 = mul(%4, %3) : f32[4, 32]
outputs
  y = %5
)");
  EXPECT_TRUE(program) << program.error().message;
  return program ? std::move(*program) : ir::Program();
}

/// What a backend of ours would report about `sample`, with one group.
json details() {
  return {{"executes", true},
          {"planner", plan::kPlannerName},
          {"resident", {2}},
          {"operations",
           {{{"operation", 0}, {"name", "cast"}, {"kernel", "simd_cast"}, {"folded", true}},
            {{"operation", 1},
             {"name", "linear"},
             {"kernel", "matmul"},
             {"declined", {"fast: 4 rows < 16"}},
             {"prepacked_bytes", 4096}},
            {{"operation", 2}, {"name", "silu"}, {"kernel", "rows"}, {"group", 0}},
            {{"operation", 3}, {"name", "mul"}, {"kernel", "rows"}, {"group", 0}}}},
          {"groups",
           {{{"operations", {2, 3}}, {"kernel", "rows"}, {"rows", 4}, {"reads", {3}}, {"writes", {5}}}}}};
}

Result<plan::PlanRecord> record(const json& document, std::uint64_t arena_bytes = 1024) {
  runtime::PreparedReport report;
  report.arena_bytes = arena_bytes;
  report.prepacked_bytes = 4096;
  report.details = document.dump();
  return record_plan(sample(), report, "cpu");
}

TEST(RecordPlan, HoldsWhatTheBackendReported) {
  const auto plan = record(details());
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->steps.at(1).kernel, "matmul");
  EXPECT_EQ(plan->steps.at(1).prepacked_bytes, 4096U);
  EXPECT_EQ(plan->steps.at(2).kernel, "rows");
  EXPECT_EQ(plan->values.at(4).storage, plan::Storage::kRegister);
  std::string text;
  for (const plan::Decision& decision : plan->decisions)
    if (decision.subject == plan::SubjectKind::kOperation && decision.id < 3)
      text += fmt::format("{} {}: {}: {}\n", decision.id, decision_kind_name(decision.kind), decision.verdict,
                          decision.reason);
  EXPECT_EQ(text, R"(0 folded: computed at prepare: its operands are constants
0 kernel: simd_cast: first in the backend's list for this operation
1 candidate: fast declined: 4 rows < 16
1 kernel: matmul: first in the backend's list that did not decline
1 prepacked: 4096 bytes: matmul keeps its constants in a layout of its own
2 group: group 0: 4 rows go through 2 silu, 3 mul together
2 kernel: rows: the kernel of its group
)");
  const PlanSubject constant = {plan::SubjectKind::kValue, 1};
  EXPECT_NE(explain_text(*plan, constant, nullptr).find("placement  released"), std::string::npos);
  EXPECT_TRUE(plan::encode_plan(*plan));
}

TEST(RecordPlan, AGroupThatEveryKernelDeclinedIsACandidate) {
  json document = details();
  document["groups"] = {{{"operations", {2, 3}}, {"declined", {"rows: 32 columns < 64"}}}};
  const auto plan = record(document, 1536);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->steps.size(), 4U);
  EXPECT_NE(explain_text(*plan, {plan::SubjectKind::kOperation, 2}, nullptr)
                .find("rows declined the group of operations 2, 3: 32 columns < 64"),
            std::string::npos);
}

TEST(RecordPlan, RefusesReportsThatItCannotBelieve) {
  const auto refused = [](const json& document, std::uint64_t arena_bytes, const std::string& part) {
    const auto plan = record(document, arena_bytes);
    ASSERT_FALSE(plan) << part;
    EXPECT_NE(plan.error().message.find(part), std::string::npos) << plan.error().message;
  };
  refused(json::object(), 1024, "does not say how it lays out memory");
  refused(json::array(), 1024, "does not say how it lays out memory");
  refused(details(), 77, "reports an arena of 77 bytes, its plan has 1024");
  json twice = details();
  twice["groups"].push_back(twice["groups"][0]);
  refused(twice, 1024, "the plug-in is broken");
  json folded = details();
  folded["groups"][0]["operations"] = {0, 2};
  refused(folded, 1024, "the plug-in is broken");
}

TEST(RecordPlan, WhatDoesNotLookAsExpectedIsNotThere) {
  json document = details();
  document["operations"] = {7, "x", {{"operation", 99}, {"kernel", "a"}}, {{"operation", 1}, {"kernel", 5}}};
  document["resident"] = {"x", 99};
  document["group_ends"] = {{{"operation", 1}}, 5};
  const auto plan = record(document);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_TRUE(plan::encode_plan(*plan));
}

TEST(PlanDiff, NamesWhatDiffers) {
  const auto a = record(details());
  json other = details();
  other["operations"][1]["kernel"] = "fast";
  const auto b = record(other);
  ASSERT_TRUE(a && b);
  EXPECT_TRUE(diff_plans(*a, *a).empty());
  EXPECT_EQ(diff_text(diff_plans(*a, *b)), R"(step of operation 1
  - operation 1, kernel matmul
  + operation 1, kernel fast
decision kernel of operation 1
  - matmul: first in the backend's list that did not decline
  + fast: first in the backend's list that did not decline
decision prepacked of operation 1
  - 4096 bytes: matmul keeps its constants in a layout of its own
  + 4096 bytes: fast keeps its constants in a layout of its own
)");
}

}  // namespace
}  // namespace dif
