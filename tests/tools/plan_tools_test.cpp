/// difplan, difc plan, dif generate --dry-run and --plan-out.
#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/tools/tool_test.h"

namespace dif::test {
namespace {

using nlohmann::json;
const Arguments kSmall = {"--size",     "32x16", "--steps",   "2",         "--text-tokens", "24",
                          "--guidance", "1",     "--backend", "reference", "--quiet"};

Arguments generate(Arguments more) {
  Arguments arguments = {"generate", "x"};
  arguments.insert(arguments.end(), kSmall.begin(), kSmall.end());
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

/// A chain of programs, and the plan of its step, made once.
class PlanTools : public ToolTest {
 protected:
  static void SetUpTestSuite() {
    shared_ = new ScratchDir;
    const Finished chain =
        run_program("dif", generate({"--emit-programs", "chain", "--passes", "default"}), shared_->path());
    ASSERT_EQ(chain.status, 0) << chain.err;
    const Finished plan = run_program(
        "difc", {"plan", "chain/step.difir", "step.difplan", "--backend", "reference"}, shared_->path());
    ASSERT_EQ(plan.status, 0) << plan.err;
    ASSERT_NE(plan.out.find("plan of step on backend reference"), std::string::npos) << plan.out;
  }
  static void TearDownTestSuite() {
    delete shared_;
    shared_ = nullptr;
  }
  static std::string shared(const std::string& name) { return (shared_->path() / name).string(); }

  json document(const std::string& tool, Arguments arguments) const {
    arguments.push_back("--json");
    const std::string text = succeed(tool, arguments);
    json parsed = json::parse(text, nullptr, false);
    EXPECT_TRUE(parsed.is_object()) << text;
    EXPECT_EQ(parsed.value("kind", ""), "plan-report");
    return parsed;
  }

  static ScratchDir* shared_;
};
ScratchDir* PlanTools::shared_ = nullptr;

TEST_F(PlanTools, ShowPrintsStepsKernelsAndMemory) {
  const std::string text = succeed("difplan", {"show", shared("step.difplan")});
  for (const char* part : {"plan of step on backend reference", "kernel reference", "values in the arena",
                           "target: backend reference"})
    EXPECT_NE(text.find(part), std::string::npos) << part;
  const json plan = document("difplan", {"show", shared("step.difplan")}).at("plan");
  EXPECT_EQ(plan.at("program").at("fingerprint").get<std::string>() + "\n",
            succeed("difc", {"fingerprint", shared("chain/step.difir")}));
  EXPECT_GT(plan.at("memory").at("arena_bytes"), 0);
  EXPECT_GT(plan.at("steps").size(), 100U);
}

TEST_F(PlanTools, APlanThatWasRecordedWhileDrawingIsThePlanThatIsMadeWithoutWeights) {
  succeed("dif", generate({"--plan-out", "plans", "-o", "x.png"}));
  const std::string text = succeed("difplan", {"diff", shared("step.difplan"), path("plans/step.difplan")});
  EXPECT_TRUE(text.starts_with("decision precision of the plan\n  + f32: ")) << text;
  EXPECT_EQ(std::ranges::count(text, '\n'), 2) << text;
  EXPECT_TRUE(std::filesystem::exists(path("plans/encode.difplan")));
  EXPECT_TRUE(std::filesystem::exists(path("plans/decode.difplan")));
  EXPECT_EQ(succeed("difplan", {"diff", shared("step.difplan"), shared("step.difplan")}),
            "the plans are the same\n");
}

TEST_F(PlanTools, PlansOfPartsThatAreGoneDoNotStay) {
  const auto names = [&] {
    std::set<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(path("plans")))
      found.insert(entry.path().filename());
    return found;
  };
  const std::set<std::string> whole = {"encode.difplan", "step.difplan", "decode.difplan"};
  std::filesystem::create_directory(path("plans"));
  std::ofstream(path("plans/decode.mine.difplan")) << "kept";
  succeed("dif", generate({"--plan-out", "plans", "-o", "x.png", "--decode", "slabs"}));
  EXPECT_GT(names().size(), whole.size() + 1);
  succeed("dif", generate({"--plan-out", "plans", "-o", "x.png", "--decode", "whole"}));
  std::set<std::string> expected = whole;
  expected.insert("decode.mine.difplan");
  EXPECT_EQ(names(), expected);
}

TEST_F(PlanTools, DiffPrintsWhatWouldRunOtherwise) {
  succeed("difc", {"plan", shared("chain/decode.difir"), "decode.difplan", "--backend", "reference"});
  const json differences =
      document("difplan", {"diff", shared("step.difplan"), "decode.difplan"}).at("differences");
  EXPECT_EQ(differences.at(0).at("what"), "program");
}

TEST_F(PlanTools, ExplainPrintsTheDecisionsAboutOneSubject) {
  const std::string op = succeed(
      "difplan", {"explain", "op", "0", shared("step.difplan"), "--program", shared("chain/step.difir")});
  EXPECT_EQ(op.rfind("operation 0: %", 0), 0U) << op;
  EXPECT_NE(op.find("kernel     reference: first in the backend's list for this operation"),
            std::string::npos)
      << op;
  const std::string tensor = succeed("difplan", {"explain", "tensor", "0", shared("step.difplan")});
  EXPECT_NE(tensor.find("no decision about it is recorded"), std::string::npos) << tensor;
  const json found = document("difplan", {"explain", "op", "0", shared("step.difplan")});
  EXPECT_EQ(found.at("explanation").at("decisions").at(0).at("kind"), "kernel");
  fail("difplan", {"explain", "op", "100000", shared("step.difplan")}, 2,
       "operation 100000: the plan of step has");
  fail("difplan", {"explain", "op", "x", shared("step.difplan")}, 2, "x");
  fail("difplan", {"explain", "op", "0", shared("step.difplan"), "--program", shared("chain/decode.difir")},
       2, "is a plan of program step");
}

TEST_F(PlanTools, ResidencyIsComputedForABudgetOrReadFromThePlan) {
  const std::string program = shared("chain/step.difir");
  const json all =
      document("difplan", {"residency", "--program", program, "--budget-mib", "1000"}).at("residency");
  EXPECT_EQ(all.at("streamed_bytes"), 0);
  EXPECT_EQ(all.at("fits"), true);
  const json some = document("difplan", {"residency", "--program", program, "--budget-mib", "6", "--order",
                                         "largest", "--prefetch-distance", "2"})
                        .at("residency");
  EXPECT_EQ(some.at("fits"), true);
  EXPECT_GT(some.at("streamed_bytes"), 0);
  EXPECT_EQ(some.at("streamed_bytes").get<std::int64_t>() + some.at("resident_bytes").get<std::int64_t>(),
            all.at("resident_bytes").get<std::int64_t>());

  succeed("difc", {"plan", program, "budget.difplan", "--backend", "reference", "--resident-plan-mib", "6",
                   "--resident-order", "largest", "--prefetch-distance", "2"});
  EXPECT_EQ(document("difplan", {"residency", "budget.difplan"}).at("residency").at("ring_bytes"),
            some.at("ring_bytes"));
  EXPECT_NE(succeed("difplan", {"residency", "budget.difplan", "--program", program}).find(".weight"),
            std::string::npos);
  fail("difplan", {"residency", shared("step.difplan")}, 2, "no residency is recorded");
  fail("difplan", {"residency", "--program", program}, 2, "--budget-mib N");
  fail("difplan", {"residency", "budget.difplan", "--budget-mib", "7"}, 2, "records its own budget");
  fail("difplan", {"residency", "--program", program, "--order", "last"}, 2, "--order");
}

TEST_F(PlanTools, InspectJoinsOperationsWithThePlan) {
  const std::string program = shared("chain/step.difir");
  const std::string text =
      succeed("difinspect", {program, "--source", "--plan", shared("step.difplan"), "--op", "0"});
  EXPECT_NE(text.find("kernel          reference: first in the backend's list"), std::string::npos) << text;
  EXPECT_NE(succeed("difinspect", {program, "--resident-plan-mib", "6", "--resident-order", "largest"})
                .find("admitted in order largest"),
            std::string::npos);
  fail("difinspect", {program, "--plan", shared("step.difplan")}, 2, "belong to --source");
  fail("difinspect", {shared("chain/decode.difir"), "--source", "--plan", shared("step.difplan")}, 2,
       "is a plan of program step");
}

TEST_F(PlanTools, ADamagedPlanIsRefused) {
  std::string bytes = read_text(shared("step.difplan"));
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  std::ofstream(path("damaged.difplan"), std::ios::binary) << bytes;
  fail("difplan", {"show", "damaged.difplan"}, 2, "damaged.difplan is damaged");
  fail("difplan", {"show", shared("chain/step.difir")}, 2, "expected a plan");
  fail("difplan", {"show", "absent.difplan"}, 2, "absent.difplan");
}

TEST_F(PlanTools, ADryRunReadsNoWeightsRunsNothingAndWritesNothing) {
  const std::string text = succeed("dif", generate({"--dry-run"}));
  for (const char* part : {"encode", "step", "decode", "nothing is streamed", "are available"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
  const json run = document("dif", generate({"--dry-run", "--batch", "3"})).at("dry_run");
  EXPECT_EQ(run.at("programs").at(1).at("runs"), 6);
  EXPECT_EQ(run.at("programs").at(2).at("runs"), 3);
  EXPECT_EQ(files(), std::set<std::string>{});
}

TEST_F(PlanTools, ADryRunEstimatesItsTimeFromWhatWasDrawnBefore) {
  const auto dry = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--dry-run", "--cache-dir", path("cache")});
    return document("dif", generate(more)).at("dry_run");
  };
  EXPECT_TRUE(dry({}).at("estimated_seconds").is_null());
  EXPECT_FALSE(dry({}).at("programs").at(1).contains("achieved"));
  succeed("dif", generate({"-o", path("x.png"), "--cache-dir", path("cache")}));
  const json run = dry({});
  double seconds = 0;
  for (const json& program : run.at("programs"))
    seconds += program.at("flops").get<double>() * program.at("runs").get<double>() /
               program.at("achieved").at("flops_per_second").get<double>();
  EXPECT_GT(seconds, 0);
  EXPECT_NEAR(run.at("estimated_seconds").get<double>(), seconds, 1e-9 * seconds);
  EXPECT_GT(dry({"--batch", "3"}).at("estimated_seconds").get<double>(), seconds);
  EXPECT_TRUE(dry({"--dtype", "bf16"}).at("estimated_seconds").is_null()) << "nothing was drawn in bf16";
  const std::string text = succeed("dif", generate({"--dry-run", "--cache-dir", path("cache")}));
  EXPECT_NE(text.find("time       about "), std::string::npos) << text;
}

TEST_F(PlanTools, WhatADryRunPredictsIsWhatARunAllocates) {
  const json planned = document("dif", generate({"--dry-run"})).at("dry_run");
  const json drawn = json::parse(succeed("dif", generate({"-o", "x.png", "--json"})));
  std::int64_t arena = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    for (const char* field : {"arena_bytes", "workspace_bytes", "resident_bytes", "prepacked_bytes"})
      EXPECT_EQ(planned.at("programs").at(i).at(field), drawn.at("programs").at(i).at(field)) << field;
    EXPECT_EQ(planned.at("programs").at(i).at("fingerprint"),
              drawn.at("programs").at(i).at("prepared_fingerprint"));
    arena = std::max(arena, drawn.at("programs").at(i).at("arena_bytes").get<std::int64_t>());
  }
  const json& memory = drawn.at("memory");
  EXPECT_EQ(memory.at("arena_bytes").at("predicted"), arena);
  EXPECT_EQ(memory.at("arena_bytes").at("measured"), arena);
  EXPECT_EQ(memory.at("workspace_bytes").at("predicted"), memory.at("workspace_bytes").at("measured"));
  EXPECT_GE(memory.at("device_peak_bytes"), arena);
}

// --- the cache --------------------------------------------------------------------------------------------

TEST_F(PlanTools, KeepsTheModelsDigestBetweenRunsAndNeverFailsForIt) {
  const auto draw = [&](Arguments more) {
    more.insert(more.end(), {"-o", "x.png"});
    const Finished finished = run("dif", generate(more));
    EXPECT_EQ(finished.status, 0) << finished.err;
    return std::pair(read_text(path("x.png")), finished.err);
  };
  const auto plain = draw({"--no-cache"});
  EXPECT_EQ(files(), std::set<std::string>{"x.png"});

  const std::filesystem::path area = path("cache/model-digests");
  EXPECT_EQ(draw({"--cache-dir", "cache"}), plain);
  std::vector<std::filesystem::path> entries(std::filesystem::directory_iterator(area), {});
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_EQ(draw({"--cache-dir", "cache"}), plain) << "with the digest from the cache";

  const std::string warning = "warning: the cache is not used: ";
  std::ofstream(entries.front(), std::ios::binary) << "damaged";
  for (const char* folder : {"cache", "x.png"}) {
    const auto [picture, warnings] = draw({"--cache-dir", folder});
    EXPECT_EQ(picture, plain.first);
    EXPECT_EQ(warnings.rfind(plain.second + warning, 0), 0U) << warnings;
    EXPECT_EQ(std::ranges::count(warnings, '\n'), std::ranges::count(plain.second, '\n') + 1) << warnings;
  }
  EXPECT_NE(read_text(entries.front()), "damaged") << "it was written again";
}

}  // namespace
}  // namespace dif::test
