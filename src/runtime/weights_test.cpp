/// Weights on a device with a copy lane: from files and memory to the device, resident and streamed.
#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "runtime/test_weights.h"

namespace dif::runtime {
namespace {

using test::budget_for;
using test::expect_error;
using test::f32;
using test::finish;
using test::kBytes;
using test::kKernels;
using test::kWeights;
using test::kWidth;
using test::LaneDevice;
using test::sums;
using test::Weights;

TEST_F(Weights, WithoutABudgetAllOfThemAreResident) {
  LaneDevice device;
  SharedArena arena(device);
  auto executor = prepare(device, arena, {});
  ASSERT_TRUE(executor) << executor.error().message;
  EXPECT_EQ((*executor)->report().streamed_bytes, 0U);
  EXPECT_EQ((*executor)->report().resident_bytes, (kWeights + 2) * kBytes);
  EXPECT_GT((*executor)->report().pinned_host_bytes, 0U);
  EXPECT_EQ(released.size(), std::size_t{kWeights});
  const std::uint64_t before = device.uploaded_bytes;
  EXPECT_EQ(before, (kWeights + 2) * kBytes) << "w4 also to compute with";
  EXPECT_TRUE(run(device, **executor, 3));
  EXPECT_EQ(device.uploaded_bytes, before);
}

class WeightsOnTheirWay : public Weights {
 protected:
  /// Nobody waits for constants to be handed back, so that prepare need not wait for the device.
  Result<std::unique_ptr<Executor>> begin(LaneDevice& device, SharedArena& arena) {
    ExecutorOptions all = {kKernels, true, {}};
    all.weights.n_buffers = 2;
    return Executor::prepare(sums(), constants, device, arena, all);
  }
};

TEST_F(WeightsOnTheirWay, AreThereWhenARunReadsThem) {
  for (const Lane eager : {Lane::kRun, Lane::kCopy}) {
    LaneDevice device(eager);
    SharedArena arena(device);
    auto first = begin(device, arena);
    ASSERT_TRUE(first) << first.error().message;
    auto second = begin(device, arena);  // wants the uploader of the first
    ASSERT_TRUE(second) << second.error().message;
    EXPECT_TRUE(run(device, **second, 2));
    EXPECT_TRUE(run(device, **first, 2));
  }
}

TEST_F(WeightsOnTheirWay, AreInTheReportOnceTheyAreThere) {
  LaneDevice device;
  SharedArena arena(device);
  auto executor = begin(device, arena);
  ASSERT_TRUE(executor) << executor.error().message;
  EXPECT_TRUE((*executor)->finish_loading());
  EXPECT_TRUE((*executor)->finish_loading()) << "nothing is left to wait for";
  const auto details = nlohmann::json::parse((*executor)->report().details);
  EXPECT_EQ(details.at("loading").at("bytes"), (kWeights + 1) * kBytes) << "all but what was computed";
  EXPECT_GE(details.at("loading").at("seconds"), 0);
}

TEST_F(WeightsOnTheirWay, MayBeWantedByNobody) {
  LaneDevice device;
  SharedArena arena(device);
  EXPECT_TRUE(begin(device, arena));
}

TEST_F(WeightsOnTheirWay, TellTheirFailureToEveryRun) {
  LaneDevice device;
  SharedArena arena(device);
  std::filesystem::resize_file(path, kBytes / 2 * 11);
  auto executor = begin(device, arena);
  ASSERT_TRUE(executor) << executor.error().message;
  for (int i = 0; i < 2; ++i) {
    const Status status = run(device, **executor, 1);
    ASSERT_FALSE(status);
    EXPECT_NE(status.error().message.find("shrank"), std::string::npos) << status.error().message;
  }
}

TEST_F(Weights, LazyOnesComeWithTheFirstRun) {
  LaneDevice device;
  SharedArena arena(device);
  auto executor = prepare(device, arena, {.lazy = true});
  ASSERT_TRUE(executor) << executor.error().message;
  EXPECT_EQ(device.uploaded_bytes, kBytes) << "to compute with";
  EXPECT_TRUE(released.empty() || released.size() < std::size_t{kWeights});
  EXPECT_TRUE(run(device, **executor, 2));
}

struct Streaming {
  Lane eager = Lane::kRun;
  plan::ResidentOrder order = plan::ResidentOrder::kSpread;
  std::uint32_t distance = 1;
  bool host_pinned = false, serial = false, records = false;
};

class StreamedWeights : public Weights, public ::testing::WithParamInterface<Streaming> {};

TEST_P(StreamedWeights, GiveWhatResidentOnesGive) {
  const Streaming& how = GetParam();
  LaneDevice device(how.eager);
  device.records = how.records;
  {
    SharedArena arena(device);
    device.cap = budget_for(6);
    auto executor = prepare(device, arena,
                            {.order = how.order,
                             .prefetch_distance = how.distance,
                             .host_pinned = how.host_pinned,
                             .serial = how.serial,
                             .threads = 3,
                             .n_buffers = 2});
    ASSERT_TRUE(executor) << executor.error().message;
    const ExecutorReport& report = (*executor)->report();
    EXPECT_GT(report.streamed_bytes, 3 * kBytes);
    EXPECT_GT(report.resident_bytes, 0U);
    EXPECT_EQ(report.ring_bytes, (how.serial ? 1 : how.distance + 1) * kBytes);
    EXPECT_TRUE(!how.host_pinned || report.pinned_host_bytes >= report.streamed_bytes - kBytes);
    EXPECT_TRUE(run(device, **executor, 4));
    if (how.records) {
      EXPECT_GT(device.recordings, 3) << "graphs between staging points";
      EXPECT_EQ(device.replays, 3 * device.recordings) << "of the second run and those after it";
    }
    const auto details = nlohmann::json::parse(report.details);
    EXPECT_EQ(details.at("residency").at("budget_bytes"), device.cap);
    EXPECT_FALSE(details.at("streamed").empty());
  }
  EXPECT_LE(device.most_held, device.cap);
}

INSTANTIATE_TEST_SUITE_P(
    , StreamedWeights,
    ::testing::Values(Streaming{}, Streaming{.eager = Lane::kCopy}, Streaming{.distance = 0},
                      Streaming{.order = plan::ResidentOrder::kFirst, .distance = 3},
                      Streaming{.eager = Lane::kCopy, .distance = 3}, Streaming{.host_pinned = true},
                      Streaming{.eager = Lane::kCopy, .host_pinned = true}, Streaming{.serial = true},
                      Streaming{.records = true},
                      Streaming{.eager = Lane::kCopy, .distance = 2, .host_pinned = true, .records = true}));

TEST_F(Weights, TheLeastBudgetIsNamedAndWorks) {
  LaneDevice device;
  SharedArena arena(device);
  device.cap = 1 << 20;
  auto refused = prepare(device, arena, {});
  expect_error(refused, ErrorCode::kOutOfMemory,
               "program sums needs at least 49 MiB of device memory, 1 MiB");
  device.cap = 49 << 20;
  auto executor = prepare(device, arena, {.n_buffers = 2});
  ASSERT_TRUE(executor) << executor.error().message;
  EXPECT_TRUE(run(device, **executor, 2));
}

TEST_F(Weights, APlanTellsWhatARunDoes) {
  LaneDevice device;
  SharedArena arena(device);
  device.cap = budget_for(6);
  ExecutorOptions options = {kKernels, true, {}};
  options.plan_only = true;
  std::vector<HostConstant> none;
  for (int i = 0; i < kWeights; ++i) none.push_back({nullptr, kBytes});
  auto planned = Executor::prepare(sums(), none, device, arena, options);
  ASSERT_TRUE(planned) << planned.error().message;
  EXPECT_EQ(device.uploaded_bytes, 0U);
  const ExecutorReport plan = (*planned)->report();
  EXPECT_GT(plan.streamed_bytes, 0U);
  planned->reset();  // while it lives, others are planned beside it
  const auto prepared = prepare(device, arena, {});
  ASSERT_TRUE(prepared) << prepared.error().message;
  EXPECT_EQ(plan.resident_bytes, (*prepared)->report().resident_bytes);
  EXPECT_EQ(plan.streamed_bytes, (*prepared)->report().streamed_bytes);
  EXPECT_EQ(plan.ring_bytes, (*prepared)->report().ring_bytes);
  const auto decided = [](const ExecutorReport& report, const char* what) {
    return nlohmann::json::parse(report.details).at(what);
  };
  for (const char* what : {"streamed", "resident", "residency"})
    EXPECT_EQ(decided(plan, what), decided((*prepared)->report(), what));
}

TEST_F(Weights, WhatIsPlannedAtOneTimeIsPlannedBesideEachOther) {
  LaneDevice device;
  SharedArena arena(device);
  device.cap = budget_for(6);
  ExecutorOptions options = {kKernels, true, {}};
  options.plan_only = true;
  const std::vector<HostConstant> none(kWeights, {nullptr, kBytes});
  const auto first = Executor::prepare(sums(), none, device, arena, options);
  ASSERT_TRUE(first) << first.error().message;
  const auto second = Executor::prepare(sums(), none, device, arena, options);
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_LT((*second)->report().resident_bytes, (*first)->report().resident_bytes);
}

TEST_F(Weights, UnderACapTheArenaGoesWithTheLastProgram) {
  LaneDevice device;
  SharedArena arena(device);
  ASSERT_TRUE(arena.reserve(4 * kBytes, kBytes));
  auto first = prepare(device, arena, {});
  ASSERT_TRUE(first) << first.error().message;
  auto second = prepare(device, arena, {});
  ASSERT_TRUE(second) << second.error().message;
  device.cap = 64 << 20;
  first->reset();
  EXPECT_EQ(arena.arena_bytes(), 4 * kBytes) << "the second one uses it";
  second->reset();
  EXPECT_EQ(arena.arena_bytes(), 0U);
  EXPECT_EQ(arena.workspace_bytes(), 0U);
}

TEST_F(Weights, PinnedMemoryThatIsRefusedIsAnErrorThatSaysWhatFor) {
  LaneDevice device;
  SharedArena arena(device);
  device.cap = budget_for(6);
  device.pinned_limit = 0;
  expect_error(prepare(device, arena, {}), ErrorCode::kOutOfMemory, "cannot be pinned");
  device.pinned_limit = 10 << 20;
  arena.uploader({.n_buffers = 2}, 0).value();
  device.pinned_limit = kBytes;
  expect_error(prepare(device, arena, {.host_pinned = true, .n_buffers = 2}), ErrorCode::kOutOfMemory,
               "--host-pinned keeps what is streamed");
}

TEST_F(Weights, AFileThatShrinksWhileItStreamsEndsTheRun) {
  LaneDevice device;
  SharedArena arena(device);
  device.cap = budget_for(5);
  auto executor = prepare(device, arena, {.n_buffers = 2});
  ASSERT_TRUE(executor) << executor.error().message;
  EXPECT_TRUE(run(device, **executor, 1));
  ASSERT_EQ(::truncate(path.c_str(), kBytes), 0);
  Status status;
  for (int i = 0; i < 3 && status; ++i) status = run(device, **executor, 1);
  expect_error(status, ErrorCode::kIo, "shrank while in use");
  expect_error(run(device, **executor, 1), ErrorCode::kIo, "shrank while in use");
}

TEST_F(Weights, ARunThatIsStoppedBetweenStagesCanBeRepeated) {
  LaneDevice device;
  SharedArena arena(device);
  device.cap = budget_for(5);
  auto executor = prepare(device, arena, {.n_buffers = 2});
  ASSERT_TRUE(executor) << executor.error().message;
  for (int stop_after = 1; stop_after < 14; stop_after += 4) {
    int asked = 0;
    RunHooks hooks;
    hooks.cancelled = [&] { return ++asked > stop_after; };
    expect_error(run(device, **executor, 1, hooks), ErrorCode::kCancelled, "stopped on request");
    EXPECT_TRUE(run(device, **executor, 2));
  }
}

TEST_F(Weights, ADeviceThatFailsWhileItStreamsIsReported) {
  LaneDevice device;
  SharedArena arena(device);
  device.cap = budget_for(5);
  auto executor = prepare(device, arena, {.n_buffers = 2});
  ASSERT_TRUE(executor) << executor.error().message;
  EXPECT_TRUE(run(device, **executor, 1));
  device.copies_until_failure = 4;
  Status status;
  for (int i = 0; i < 3 && status; ++i) status = run(device, **executor, 1);
  expect_error(status, ErrorCode::kUnavailable, "the device is gone");
}

TEST_F(Weights, AConstantThatIsToBeKeptStaysWhateverTheOrder) {
  for (const std::uint32_t wanted : {0U, 7U, 11U}) {
    LaneDevice device;
    SharedArena arena(device);
    device.cap = budget_for(6);
    ExecutorOptions options = {kKernels, true, {}};
    options.weights.n_buffers = 2;
    options.execution.resident_constants = {wanted};
    auto executor = Executor::prepare(sums(), constants, device, arena, options);
    ASSERT_TRUE(executor) << executor.error().message;
    const auto details = nlohmann::json::parse((*executor)->report().details);
    const ir::ValueId value = (*executor)->program().constants[wanted];
    const auto resident = details.at("resident").get<std::vector<ir::ValueId>>();
    EXPECT_EQ(std::ranges::count(resident, value), 1) << wanted;
    EXPECT_FALSE(details.at("streamed").empty());
    EXPECT_TRUE(run(device, **executor, 2));
  }
}

TEST_F(Weights, WhatCannotBeKeptOrChosenIsRefused) {
  LaneDevice device;
  SharedArena arena(device);
  device.cap = budget_for(4);
  const auto refused = [&](const ExecutionOptions& execution, ErrorCode code, const char* sentence) {
    ExecutorOptions options = {kKernels, true, {}};
    options.execution = execution;
    expect_error(Executor::prepare(sums(), constants, device, arena, options), code, sentence);
  };
  refused({.resident_constants = {12}}, ErrorCode::kInvalidInput,
          "has 12 constants, none with the number 12");
  refused({.resident_constants = {0, 3, 5, 6, 7, 8, 9, 10, 11}}, ErrorCode::kOutOfMemory,
          "is to stay on the device, and its 1 MiB do not fit beside the ring");
  refused({.linears = {{.operation = 99}}}, ErrorCode::kInvalidInput, "has no operation 99; the last one is");
  refused({.linears = {{.operation = 0}}}, ErrorCode::kInvalidInput,
          "operation 0 is add, not linear: it has no algorithms to choose from");
}

}  // namespace
}  // namespace dif::runtime
