#include "plan/residency.h"

#include <gtest/gtest.h>

#include "tests/support/program_parser.h"

namespace dif::plan {
namespace {

/// Four products, whose weights take 4096, 8192 (read as folded f32), 4096 and 2048 bytes; the arena 512.
ir::Program products() {
  auto program = test::parse_program(R"(program products
inputs
  %0 = x : f32[1, 32]
constants
  %1 = a : f32[32, 32]
  %2 = b : bf16[64, 32]
  %3 = c : f32[32, 32]
  %4 = d : f32[16, 32]
operations
  %5 = cast(%b) {dtype = f32} : f32[64, 32]
  %6 = linear(%x, %a) : f32[1, 32]
  %7 = linear(%6, %5) : f32[1, 64]
  %8 = linear(%x, %c) : f32[1, 32]
  %9 = linear(%8, %d) : f32[1, 16]
  %10 = linear(%x, %a) : f32[1, 32]
outputs
  y = %7
  z = %9
  again = %10
)");
  EXPECT_TRUE(program) << program.error().message;
  return program ? std::move(*program) : ir::Program();
}

Residency place(std::uint64_t budget, ResidentOrder order = ResidentOrder::kFirst, std::uint32_t distance = 1,
                std::uint64_t fixed = 0) {
  const ir::Program program = products();
  const Plan plan = make_plan(program);
  return place_weights(program, plan, {budget + plan.arena_bytes, fixed, order, distance});
}

std::vector<ir::ValueId> streamed(const Residency& residency) {
  std::vector<ir::ValueId> values;
  for (const PlacedWeight& weight : residency.weights)
    if (!weight.resident) values.push_back(weight.value);
  return values;
}

constexpr std::uint64_t kAll = 4096 + 8192 + 4096 + 2048;

TEST(Residency, WithRoomForAllNothingIsStreamed) {
  const Residency residency = place(kAll);
  EXPECT_TRUE(residency.fits);
  EXPECT_EQ(residency.resident_bytes, kAll);
  EXPECT_EQ(residency.ring_bytes, 0U);
  std::vector<ir::ValueId> order;
  for (const PlacedWeight& weight : residency.weights) order.push_back(weight.value);
  EXPECT_EQ(order, (std::vector<ir::ValueId>{1, 5, 3, 4})) << "as first read; what is folded, not its source";
}

TEST(Residency, AdmitsInOrderOfReadingWhileTheRingOfTheRestFits) {
  // a: 4096 + ring(b, c) 12288 fits into 16384; b does not: 4096 + 8192 + ring(c, d) 6144 = 18432. c: 8192 +
  // ring(b, d) 10240 = 18432 does not; d: 4096 + 2048 + ring(b, c) 12288 does not.
  const Residency residency = place(16384);
  EXPECT_EQ(streamed(residency), (std::vector<ir::ValueId>{5, 3, 4}));
  EXPECT_EQ(residency.ring_bytes, 12288U);
  EXPECT_TRUE(residency.fits);
}

TEST(Residency, LargestFirstKeepsTheLargestResident) {
  // b: 8192 + ring(a, c; d, a) 8192 fits; a: 12288 + ring(c, d) 6144 does not; nor does c; d: 10240 + 8192.
  const Residency residency = place(16384, ResidentOrder::kLargest);
  EXPECT_EQ(streamed(residency), (std::vector<ir::ValueId>{1, 3, 4}));
  EXPECT_EQ(residency.ring_bytes, 8192U);
  EXPECT_EQ(residency.streamed_bytes, 4096U + 4096 + 2048);
}

TEST(Residency, ADistanceOfZeroNeedsOneSlot) {
  const Residency residency = place(8192, ResidentOrder::kFirst, 0);
  EXPECT_EQ(residency.ring_bytes, 8192U);
  EXPECT_EQ(residency.resident_bytes, 0U);
  EXPECT_TRUE(residency.fits);
}

TEST(Residency, TheRingWrapsAroundTheEndOfARun) {
  // The last weight of a run and the first of the next one are in the ring together.
  const std::vector<PlacedWeight> weights = {{0, 8}, {1, 1}, {2, 1}, {3, 8}};
  const Residency residency = place_weights(weights, 0, {16, 0, ResidentOrder::kFirst, 1});
  EXPECT_EQ(residency.ring_bytes, 16U);
  EXPECT_EQ(streamed(residency), (std::vector<ir::ValueId>{0, 1, 2, 3}));
  EXPECT_TRUE(residency.fits);
  EXPECT_FALSE(place_weights(weights, 0, {15, 0, ResidentOrder::kFirst, 1}).fits);
  EXPECT_EQ(streamed(place_weights(weights, 0, {17, 0, ResidentOrder::kFirst, 1})).front(), 1U);
}

TEST(Residency, SaysWhenNotEvenTheRingFits) {
  const ir::Program program = products();
  const Plan plan = make_plan(program);
  ResidencyRequest request = {0, 1 << 20, ResidentOrder::kFirst, 1};
  const std::uint64_t least = least_budget(program, plan, request);
  EXPECT_EQ(least, (1U << 20) + plan.arena_bytes + 12288);
  request.budget_bytes = least - 1;
  EXPECT_FALSE(place_weights(program, plan, request).fits);
  request.budget_bytes = least;
  EXPECT_TRUE(place_weights(program, plan, request).fits);
  request.budget_bytes = 5;
  const Residency residency = place_weights(program, plan, request);
  EXPECT_EQ(residency.available_bytes, 0U);
  EXPECT_EQ(residency.resident_bytes, 0U);
}

TEST(Residency, AnyBudgetIsKeptOnceItFits) {
  const ir::Program program = products();
  const Plan plan = make_plan(program);
  for (const ResidentOrder order : {ResidentOrder::kFirst, ResidentOrder::kLargest, ResidentOrder::kSpread})
    for (std::uint32_t distance = 0; distance < 5; ++distance) {
      ResidencyRequest request = {0, 100, order, distance};
      const std::uint64_t least = least_budget(program, plan, request);
      std::uint64_t resident = 0;
      for (std::uint64_t budget = least; budget < least + 20000; budget += 512) {
        request.budget_bytes = budget;
        const Residency residency = place_weights(program, plan, request);
        EXPECT_TRUE(residency.fits);
        EXPECT_LE(residency.resident_bytes + residency.ring_bytes + plan.arena_bytes + 100, budget);
        EXPECT_EQ(residency.resident_bytes + residency.streamed_bytes, kAll);
        resident = std::max(resident, residency.resident_bytes);
      }
      EXPECT_EQ(resident, kAll) << "the largest budget holds everything";
    }
}

TEST(Residency, SpreadKeepsSmallWeightsAndStreamsEvenly) {
  constexpr std::uint64_t kMiB = 1 << 20;
  std::vector<PlacedWeight> weights;
  for (ir::ValueId id = 0; id < 16; ++id) weights.push_back({id, id == 5 ? 1000 : 2 * kMiB, false});
  // Room for the small one, seven large ones and the ring of two.
  const Residency residency = place_weights(weights, 0, {18 * kMiB + 1000, 0, ResidentOrder::kSpread, 1});
  EXPECT_TRUE(residency.fits);
  EXPECT_TRUE(residency.weights[5].resident);
  EXPECT_EQ(residency.resident_bytes, 14 * kMiB + 1000);
  int in_a_row = 0;
  for (const PlacedWeight& weight : residency.weights) {
    in_a_row = weight.resident ? 0 : in_a_row + 1;
    EXPECT_LE(in_a_row, 2);
  }
}

TEST(Residency, SpreadStreamsForStepsThatWorkLongerThanTheirCopies) {
  constexpr std::uint64_t kMiB = 1 << 20;
  WeightUse use;
  for (ir::ValueId id = 0; id < 16; ++id) {
    use.weights.push_back({id, 2 * kMiB, false});
    use.add_step({id}, 1);
    use.add_step({}, id < 8 ? 0 : 8);  // the steps behind it count too
  }
  const auto streamed_of = [](const Residency& residency) {
    std::vector<ir::ValueId> early, late;
    for (const ir::ValueId value : streamed(residency)) (value < 8 ? early : late).push_back(value);
    return std::pair(early.size(), late.size());
  };
  // Room for eight and the ring of two. A tenth of the work is done by the first half of the steps.
  const ResidencyRequest request = {20 * kMiB, 0, ResidentOrder::kSpread, 1};
  EXPECT_LE(streamed_of(place_weights(use, 0, request)).first, 1U);
  use.work.assign(16, 0);
  EXPECT_EQ(streamed_of(place_weights(use, 0, request)), std::pair(std::size_t{4}, std::size_t{4}))
      << "where nothing is known of their work, one step is as good as another";
}

TEST(Residency, TheWeightsOfOneStepAreOnTheDeviceTogether) {
  const WeightUse use = {
      {{0, 8, false}, {1, 8, false}, {2, 1, false}, {3, 1, false}}, {{0, 1}, {2}, {3}, {1}}, {}};
  EXPECT_EQ(least_budget(use, 0, {0, 0, ResidentOrder::kFirst, 0}), 16U) << "the first step";
  EXPECT_EQ(least_budget(use, 0, {0, 0, ResidentOrder::kFirst, 1}), 24U) << "the last step and the first";
}

/// Stages that may be on the device at one time share no byte, as far as the ring has room for that.
void expect_sound(const Ring& ring, std::uint32_t distance, bool apart) {
  const std::size_t n = ring.stages.size();
  for (std::size_t i = 0; i < n; ++i) {
    const RingStage& stage = ring.stages[i];
    EXPECT_LE(stage.offset + stage.bytes, ring.bytes);
    ASSERT_GE(stage.overwrites, 1U);
    ASSERT_LE(stage.overwrites, n);
    EXPECT_TRUE(!apart || stage.overwrites > std::min<std::size_t>(distance, n - 1)) << i;
    for (std::size_t back = 1; back < stage.overwrites; ++back) {
      const RingStage& other = ring.stages[(i + n - back) % n];
      EXPECT_TRUE(stage.offset + stage.bytes <= other.offset || other.offset + other.bytes <= stage.offset);
    }
  }
}

TEST(Ring, StagesOfOneSizeLieApartAsFarAsIsPrefetched) {
  for (const std::size_t n : {1U, 2U, 3U, 8U, 12U})
    for (std::uint32_t distance = 0; distance < 4; ++distance) {
      WeightUse use;
      for (std::uint32_t i = 0; i < n; ++i) {
        use.weights.push_back({i, 256, false});
        use.steps.push_back({i});
      }
      const Ring ring = lay_out_ring(use, distance, 256);
      EXPECT_EQ(ring.bytes, 256 * std::min<std::uint64_t>(distance + 1, n));
      expect_sound(ring, distance, n % (distance + 1) == 0);
    }
}

TEST(Ring, SmallStagesOverwriteWhatWasUsedLongAgo) {
  WeightUse use;
  for (std::uint32_t i = 0; i < 12; ++i) {
    use.weights.push_back({i, i % 6 == 0 ? 4U : 1U, false});
    use.steps.push_back({i});
  }
  const Ring ring = lay_out_ring(use, 1, 1);  // a large one beside a small one
  EXPECT_EQ(ring.bytes, 5U);
  for (std::uint32_t i = 0; i < 12; ++i) EXPECT_GE(ring.stages[i].overwrites, i % 6 == 0 ? 1U : i % 6) << i;
  expect_sound(ring, 0, false);
}

TEST(Ring, AnyStagesFitAndSayWhomTheyOverwrite) {
  std::uint32_t random = 1;
  for (int round = 0; round < 50; ++round) {
    WeightUse use;
    for (std::uint32_t i = 0; i < 9; ++i) {
      random = random * 1664525 + 1013904223;
      use.weights.push_back({i, 1 + (random >> 20), (random >> 8) % 4 == 0});
      use.steps.push_back(i % 3 == 0 && i > 0 ? std::vector<std::uint32_t>{i, i - 1}
                                              : std::vector<std::uint32_t>{i});
    }
    const Ring ring = lay_out_ring(use, static_cast<std::uint32_t>(round % 4), 64);
    expect_sound(ring, 0, false);
    for (const RingStage& stage : ring.stages) EXPECT_EQ(stage.offset % 64, 0U);
  }
}

}  // namespace
}  // namespace dif::plan
