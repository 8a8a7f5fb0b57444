#include "plan/plan_file.h"

#include <gtest/gtest.h>

#include <functional>

#include "io/sealed_envelope.h"
#include "tests/support/paths.h"
#include "tests/support/program_parser.h"

namespace dif::plan {
namespace {

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
  %6 = reshape(%5) {shape = [128]} : f32[128]
outputs
  y = %6
)");
  EXPECT_TRUE(program) << program.error().message;
  return program ? std::move(*program) : ir::Program();
}

PlanRecord record() {
  const ir::Program program = sample();
  const Fusion fusion = form_groups(program, {[](const ir::OpView&) { return ok(); }});
  const Plan plan = make_plan(program, fusion.groups);
  PlanRecord result = record_layout(program, plan, fusion.refusals, "cpu");
  result.prepacked_bytes = 4096;
  result.steps[1].kernel = "matmul";
  result.steps[1].prepacked_bytes = 4096;
  record_residency(result, program, {1 << 20, 1000, ResidentOrder::kLargest, 2});
  return result;
}

TEST(PlanRecord, HoldsStepsPlacesAndWhy) {
  const PlanRecord plan = record();
  ASSERT_EQ(plan.steps.size(), 4U);
  EXPECT_EQ(plan.steps[2].ops, (std::vector<ir::OpId>{2, 3}));
  EXPECT_EQ(plan.values[4].storage, Storage::kRegister);
  EXPECT_EQ(plan.values[6].root, 5U);
  std::string text;
  for (const Decision& decision : plan.decisions)
    text += fmt::format("{} {}: {}: {}\n", decision_kind_name(decision.kind), decision.id, decision.verdict,
                        decision.reason);
  EXPECT_EQ(text, R"(folded 0: computed at prepare: its operands are constants
view 4: nothing runs: %6 has the bytes of %5
group 2: group 0: 4 rows go through 2 silu, 3 mul together
group 3: group 0: 4 rows go through 2 silu, 3 mul together
arena 3: arena 0 + 512: lives in steps 1 to 2
register 4: never in memory: only its own group reads it
arena 5: arena 512 + 512: lives from step 2 to the end of a run: an output
view 6: has the bytes of %5: reshape keeps the elements and their order
placement 2: resident: 4096 bytes are admitted in order largest
)");
}

TEST(PlanRecord, ItsIdentityIsWhatWouldRunNotWhy) {
  const std::string identity = plan_identity(record());
  const auto changed = [&](const std::function<void(PlanRecord&)>& change) {
    PlanRecord other = record();
    change(other);
    return plan_identity(other) != identity;
  };
  EXPECT_FALSE(changed([](PlanRecord& plan) { plan.decisions.clear(); }));
  EXPECT_FALSE(changed([](PlanRecord& plan) { plan.workspace_bytes = 7; }));
  EXPECT_TRUE(changed([](PlanRecord& plan) { plan.steps[1].kernel = "other"; }));
  EXPECT_TRUE(changed([](PlanRecord& plan) { plan.values[3].offset = 64; }));
  EXPECT_TRUE(changed([](PlanRecord& plan) { plan.values[4].storage = Storage::kArena; }));
  EXPECT_TRUE(changed([](PlanRecord& plan) { plan.program[0] ^= 1; }));
  EXPECT_TRUE(changed([](PlanRecord& plan) { plan.backend = "cuda"; }));
  EXPECT_TRUE(changed([](PlanRecord& plan) { plan.residency->weights[0].resident = false; }));
}

TEST(PlanFile, ReadsBackWhatWasWritten) {
  const test::ScratchDir folder;
  const PlanRecord plan = record();
  ASSERT_TRUE(write_plan(folder / "a.difplan", plan));
  const auto read = read_plan(folder / "a.difplan");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, plan);
  EXPECT_TRUE(check_plan_of(*read, "a.difplan", sample(), "a.difir"));
  ir::Program other = sample();
  other.name = "other";
  const Status status = check_plan_of(*read, "a.difplan", other, "b.difir");
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message.find("a.difplan is a plan of program sample"), std::string::npos)
      << status.error().message;
}

TEST(PlanFile, RefusesWhatNoPlanIs) {
  const auto refused = [](const std::function<void(PlanRecord&)>& damage, const std::string& part) {
    PlanRecord plan = record();
    damage(plan);
    const auto file = encode_plan(plan);
    ASSERT_FALSE(file) << part;
    EXPECT_NE(file.error().message.find(part), std::string::npos) << file.error().message;
  };
  refused([](PlanRecord& plan) { plan.program = "x"; }, "expected 64 hexadecimal characters");
  refused([](PlanRecord& plan) { plan.backend = "\xff"; }, "is not UTF-8");
  refused([](PlanRecord& plan) { plan.steps[0].ops.clear(); }, "step 0 has no operation");
  refused([](PlanRecord& plan) { plan.steps[1].ops = {0}; }, "step 1 has operation 0, which is in another");
  refused([](PlanRecord& plan) { plan.steps[0].ops = {9}; }, "step 0 has operation 9");
  refused([](PlanRecord& plan) { plan.prepacked_bytes = 1; }, "the steps keep 4096 prepacked bytes");
  refused([](PlanRecord& plan) { plan.values[6].root = 6000; }, "value 6 has the bytes of 6000");
  refused([](PlanRecord& plan) { plan.values[6].root = 4; }, "and lies elsewhere");
  refused([](PlanRecord& plan) { plan.values[0].offset = 64; }, "value 0 is not in the arena");
  refused([](PlanRecord& plan) { plan.values[3].offset = 4; }, "value 3 (offset 4");
  refused([](PlanRecord& plan) { plan.values[3].offset = 0 - std::uint64_t{64}; }, "outside the arena");
  refused([](PlanRecord& plan) { plan.values[3].last = 100; }, "lives in steps 1 to 100 of 4");
  refused([](PlanRecord& plan) { plan.residency->weights[0].value = 77; }, "is no value of the plan");
  refused([](PlanRecord& plan) { plan.residency->resident_bytes = 1; }, "are not the sums");
  refused([](PlanRecord& plan) { plan.decisions[0].id = 400; }, "a decision is about operation 400");
}

TEST(PlanFile, RefusesDamageAndOtherForms) {
  const auto file = encode_plan(record());
  ASSERT_TRUE(file);
  const std::span payload = std::span(*file).subspan(io::kEnvelopeHeaderBytes);
  for (std::size_t at = 0; at < payload.size(); at += 7) {
    std::vector<std::byte> damaged(payload.begin(), payload.end());
    damaged[at] ^= std::byte{0x20};
    const auto sealed = io::seal(io::kPlanKind, 1, damaged);
    const auto read = parse_plan(sealed, "input");
    if (read) EXPECT_EQ(*encode_plan(*read), sealed) << "one plan has one form, byte " << at;
  }
  for (std::size_t size = 0; size < payload.size(); size += 11) {
    const auto read = parse_plan(io::seal(io::kPlanKind, 1, payload.first(size)), "input");
    ASSERT_FALSE(read) << size;
    EXPECT_TRUE(read.error().message.starts_with("input: ")) << read.error().message;
  }
  EXPECT_FALSE(parse_plan(io::seal(io::kProgramKind, 1, payload), "input"));
  EXPECT_FALSE(parse_plan(io::seal(io::kPlanKind, 2, payload), "input"));
}

}  // namespace
}  // namespace dif::plan
