/// Weights on a device with a copy lane: from files and memory to the device, resident and streamed.
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "io/mapped_file.h"
#include "ir/program_file.h"
#include "ops/add/add.op.h"
#include "ops/concat/concat.op.h"
#include "ops/mul_scalar/mul_scalar.op.h"
#include "ops/slice/slice.op.h"
#include "runtime/abi_adapter.h"
#include "runtime/abi_codes.h"
#include "runtime/executor.h"
#include "runtime/test_lane_device.h"
#include "runtime/test_programs.h"
#include "tests/support/paths.h"

namespace dif::runtime {
namespace {

using test::expect_error;
using test::f32;
using test::finish;
using test::LaneDevice;
using test::StepTensors;

constexpr std::int64_t kWidth = 1024;
constexpr std::uint64_t kBytes = kWidth * sizeof(float);
constexpr int kWeights = 12;

/// y = x + w0 + w1 + ...; every weight by a step of its own, w3 by a second one as well, one of two joined
/// ones, and one that has to be computed.
ir::Program sums() {
  ir::Builder b("sums");
  ir::Value y = b.input("x", f32({kWidth}));
  std::vector<ir::Value> weights;
  for (int i = 0; i < kWeights; ++i) weights.push_back(b.constant("w" + std::to_string(i), f32({kWidth})));
  for (const ir::Value& weight : weights) y = ops::add(b, y, weight);
  y = ops::add(b, y, weights[3]);
  const std::vector<ir::Value> halves = {ops::slice(b, weights[1], 0, kWidth / 2, kWidth),
                                         ops::slice(b, weights[2], 0, 0, kWidth / 2)};
  y = ops::add(b, y, ops::concat(b, halves, 0));
  y = ops::add(b, y, ops::mul_scalar(b, weights[4], 2));
  b.output("y", y);
  return finish(b);
}

class QueuedAdd final : public Kernel {
 public:
  explicit QueuedAdd(Device* device) : device_(static_cast<LaneDevice&>(*device)) {}
  Status run(const KernelArgs& args) override {
    const auto *a = args.in[0].data<float>(), *b = args.in[1].data<float>();
    auto* y = args.out[0].data<float>();
    device_.submit(Lane::kRun, [=] {
      for (std::int64_t i = 0; i < kWidth; ++i) y[i] = a[i] + b[i];
    });
    return ok();
  }

 private:
  LaneDevice& device_;
};

class QueuedDouble final : public Kernel {
 public:
  explicit QueuedDouble(Device* device) : device_(static_cast<LaneDevice&>(*device)) {}
  Status run(const KernelArgs& args) override {
    const auto* a = args.in[0].data<float>();
    auto* y = args.out[0].data<float>();
    device_.submit(Lane::kRun, [=] {
      for (std::int64_t i = 0; i < kWidth; ++i) y[i] = 2 * a[i];
    });
    return ok();
  }

 private:
  LaneDevice& device_;
};

template <class K>
Result<std::unique_ptr<Kernel>> make(const KernelRequest& request) {
  return std::make_unique<K>(request.device);
}

const KernelEntry kKernels[] = {{&ops::kAdd, "queued", make<QueuedAdd>},
                                {&ops::kMulScalar, "queued", make<QueuedDouble>}};

/// The weights in a file, and what the program gives for x = 1.
class Weights : public ::testing::Test {
 protected:
  void SetUp() override {
    std::vector<float> values(kWeights * kWidth);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * 7 % 1013);
    const auto w = [&](int n, std::int64_t i) { return values[static_cast<std::size_t>(n * kWidth + i)]; };
    for (std::int64_t i = 0; i < kWidth; ++i) {
      float y = 1;
      for (int n = 0; n < kWeights; ++n) y += w(n, i);
      y += w(3, i);
      y += i < kWidth / 2 ? w(1, i + kWidth / 2) : w(2, i - kWidth / 2);
      expected.push_back(y + 2 * w(4, i));
    }
    const auto bytes = std::as_bytes(std::span(values));
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    auto mapped = io::MappedFile::open(path);
    ASSERT_TRUE(mapped);
    file.emplace(std::move(*mapped));
    for (int n = 0; n < kWeights; ++n) {
      const auto offset = static_cast<std::uint64_t>(n) * kBytes;
      constants.push_back({file->bytes().data() + offset, kBytes, n == 5 ? -1 : file->fd(), offset});
    }
  }

  /// Runs `times` times and looks at every result.
  Status run(LaneDevice& device, Executor& executor, int times, const RunHooks& hooks = {}) {
    DIF_ASSIGN(const DeviceBuffer x, DeviceBuffer::create(device, kBytes));
    DIF_ASSIGN(const DeviceBuffer y, DeviceBuffer::create(device, kBytes));
    const std::vector<float> ones(kWidth, 1);
    for (int i = 0; i < times; ++i) {
      DIF_TRY(device.upload(x.view(), ones.data(), kBytes));
      const std::vector<BufferView> inputs = {x.view()}, outputs = {y.view()};
      DIF_TRY(executor.run(inputs, outputs, hooks));
      std::vector<float> found(kWidth);
      DIF_TRY(device.download(found.data(), y.view(), kBytes));
      EXPECT_EQ(found, expected) << "run " << i;
    }
    return ok();
  }

  Result<std::unique_ptr<Executor>> prepare(LaneDevice& device, SharedArena& arena, WeightOptions options) {
    ExecutorOptions all = {kKernels, true, [this](std::uint32_t i) { released.push_back(i); }};
    all.weights = options;
    return Executor::prepare(sums(), constants, device, arena, all);
  }

  dif::test::ScratchDir folder;
  std::filesystem::path path = folder / "weights";
  std::optional<io::MappedFile> file;
  std::vector<HostConstant> constants;
  std::vector<float> expected;
  std::vector<std::uint32_t> released;
};

/// What a context holds beside the weights of `sums`, as decide_residency counts it, and room for `weights`.
std::uint64_t budget_for(std::uint64_t weights) {
  const plan::Plan plan = plan::make_plan(sums());
  return (48 << 20) + 2 * kBytes + plan.arena_bytes + weights * kBytes + 1;
}

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

// --- steps ahead -----------------------------------------------------------------------------------------

LaneDevice* g_lanes = nullptr;
Lane g_eager = Lane::kRun;  ///< of the next device

constexpr BackendDefinition kLanes = {
    .name = "lanes",
    .create_device = [](const DeviceOptions& options) -> Result<std::unique_ptr<Device>> {
      auto device = std::make_unique<LaneDevice>(g_eager);
      device->cap = options.cap_bytes;
      g_lanes = device.get();
      return device;
    },
    .kernels = []() -> std::span<const KernelEntry> { return kKernels; },
    .probe = [] { return std::string("{}"); },
};

/// x + weights over steps, x carried, through the C interface; half of the weights are streamed.
class StreamedLoop : public Weights {
 protected:
  void SetUp() override {
    Weights::SetUp();
    ir::Builder b("steps");
    ir::Value y = b.input("x", f32({kWidth}));
    b.input("step", {DType::kI32, {1}});
    for (int i = 0; i < kWeights; ++i) y = ops::add(b, y, b.constant("w" + std::to_string(i), f32({kWidth})));
    b.output("y", y);
    const ir::Program program = finish(b);
    dif_context_options options = {};
    options.struct_size = sizeof(options);
    options.memory_cap_bytes = n_resident == kWeights ? 0 : budget_for(n_resident);
    options.flags = context_flags;
    options.user = this;
    options.cancelled = [](void* user) -> std::int32_t {
      return --static_cast<StreamedLoop*>(user)->polls_until_cancelled < 0 ? 1 : 0;
    };
    ASSERT_EQ(api.context_create(&options, &context, &error), DIF_OK) << text;
    const auto bytes = ir::encode(program);
    std::vector<dif_constant> bound;
    std::vector<std::string> names;
    for (int i = 0; i < kWeights; ++i) names.push_back("w" + std::to_string(i));
    for (std::size_t i = 0; i < constants.size(); ++i)
      bound.push_back({sizeof(dif_constant), constants[i].fd, constants[i].file_offset, names[i].c_str(),
                       to_abi(f32({kWidth})), constants[i].data, kBytes});
    dif_prepare_options prepare = {};
    prepare.struct_size = sizeof(prepare);
    prepare.program = bytes.data();
    prepare.program_bytes = bytes.size();
    prepare.constants = bound.data();
    prepare.n_constants = static_cast<std::uint32_t>(bound.size());
    ASSERT_EQ(api.prepare(context, &prepare, &prepared, &error), DIF_OK) << text;
  }
  void TearDown() override {
    if (prepared != nullptr) api.prepared_destroy(prepared);
    if (context != nullptr) api.context_destroy(context);
  }

  dif_code run(std::uint32_t n_steps) {
    StepTensors tensors(f32({kWidth}), x.data(), found.data());
    dif_loop_options loop = tensors.loop(n_steps);
    loop.user = this;
    loop.on_step = [](void* user, const dif_step_event*) -> std::int32_t {
      static_cast<StreamedLoop*>(user)->looks_when_told.push_back(g_lanes->looks);
      return 0;
    };
    return api.run_loop(prepared, &loop, &error);
  }

  /// What is found is what that many steps make of x.
  void expect_steps(int n) {
    for (std::int64_t i = 0; i < kWidth; ++i) {
      float sum = 0;
      for (int k = 0; k < kWeights; ++k) sum += static_cast<float>((k * kWidth + i) * 7 % 1013);
      ASSERT_EQ(found[static_cast<std::size_t>(i)], 1 + static_cast<float>(n) * sum) << i;
    }
  }

  const dif_backend_api& api = *backend_api<kLanes>(DIF_ABI_MAJOR);
  char text[256] = {};
  dif_error error = {sizeof(error), text, sizeof(text), DIF_NO_OPERATION};
  dif_context* context = nullptr;
  dif_prepared* prepared = nullptr;
  std::vector<float> x = std::vector<float>(kWidth, 1), found = std::vector<float>(kWidth);
  std::vector<int> looks_when_told;
  int polls_until_cancelled = INT32_MAX;
  std::uint32_t context_flags = 0;
  int n_resident = 6;
};

class PinnedRuns : public StreamedLoop {
 protected:
  PinnedRuns() { context_flags = DIF_CONTEXT_PINNED_IO; }

  dif_code run_once() {
    StepTensors tensors(f32({kWidth}), x.data(), found.data());
    const dif_run_options options = tensors.run();
    return api.run(prepared, &options, &error);
  }
  dif_report report() {
    dif_report report = {};
    report.struct_size = sizeof(report);
    EXPECT_EQ(api.report(prepared, &report, &error), DIF_OK) << text;
    return report;
  }
};

TEST_F(PinnedRuns, GoThroughOneBlockThatIsCounted) {
  const std::uint64_t before = report().pinned_host_bytes;
  ASSERT_EQ(run_once(), DIF_OK) << text;
  expect_steps(1);
  const dif_report first = report();
  EXPECT_EQ(first.pinned_host_bytes - before, 2 * kBytes + 256) << "x, step and y, each at a multiple of 256";
  x.assign(kWidth, 1);
  ASSERT_EQ(run(3), DIF_OK) << text;
  expect_steps(3);
  ASSERT_EQ(run_once(), DIF_OK) << text;
  expect_steps(1);
  EXPECT_EQ(report().pinned_host_bytes, first.pinned_host_bytes);
}

TEST_F(PinnedRuns, AllocateNothingAfterTheFirst) {
  ASSERT_EQ(run_once(), DIF_OK) << text;
  const dif_report first = report();
  EXPECT_GT(first.context_allocations, 0U);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(run_once(), DIF_OK) << text;
  EXPECT_EQ(report().context_allocations, first.context_allocations);
}

TEST_F(StreamedLoop, SubmitsAStepBeforeItHearsOfTheOneBefore) {
  dif_report report = {};
  report.struct_size = sizeof(report);
  ASSERT_EQ(api.report(prepared, &report, &error), DIF_OK) << text;
  EXPECT_GT(report.streamed_bytes, 3 * kBytes);
  ASSERT_EQ(run(4), DIF_OK) << text;
  expect_steps(4);
  EXPECT_EQ(looks_when_told, (std::vector<int>{2, 3, 4, 4}));
}

TEST_F(StreamedLoop, ALoopThatIsStoppedBetweenStagesCanBeRepeated) {
  for (int polls = 1; polls < 40; polls += 5) {
    polls_until_cancelled = polls;
    ASSERT_EQ(run(4), DIF_ERROR_CANCELLED) << text;
    polls_until_cancelled = INT32_MAX;
    ASSERT_EQ(run(2), DIF_OK) << text;
    expect_steps(2);
  }
}

/// Runs whose inputs and outputs are in host memory of the context; run i begins with x = i.
class RunsAhead : public StreamedLoop, public ::testing::WithParamInterface<std::tuple<int, Lane>> {
 protected:
  static constexpr int kRuns = 4;

  RunsAhead() {
    n_resident = std::get<int>(GetParam());
    g_eager = std::get<Lane>(GetParam());
  }
  ~RunsAhead() override { g_eager = Lane::kRun; }
  void SetUp() override {
    StreamedLoop::SetUp();
    for (float*& block : blocks) {
      void* memory = nullptr;
      ASSERT_EQ(api.host_allocate(context, kRuns * kBytes, &memory, &error), DIF_OK) << text;
      block = static_cast<float*>(memory);
    }
    for (std::int64_t i = 0; i < kRuns * kWidth; ++i) {
      blocks[0][i] = static_cast<float>(i / kWidth);
      blocks[1][i] = -1;
    }
  }
  void TearDown() override {
    for (float* const block : blocks)
      if (block != nullptr) api.host_release(context, block);
    StreamedLoop::TearDown();
  }
  float* output(int i) { return blocks[1] + i * kWidth; }
  dif_code run_once(int i, std::uint32_t flags) {
    StepTensors tensors(f32({kWidth}), blocks[0] + i * kWidth, output(i));
    dif_run_options options = tensors.run();
    options.flags = flags;
    return api.run(prepared, &options, &error);
  }
  /// The outputs of run i are complete.
  void expect_output(int i) {
    std::copy(output(i), output(i) + kWidth, found.begin());
    for (float& value : found) value += 1 - static_cast<float>(i);
    expect_steps(1);
  }

  float* blocks[2] = {};
};

TEST_P(RunsAhead, HaveTheirOutputsOnceTheNextOneIsBack) {
  for (int i = 0; i < kRuns; ++i) {
    ASSERT_EQ(run_once(i, i + 1 < kRuns ? DIF_RUN_AHEAD : 0), DIF_OK) << text;
    if (i == 1 && n_resident == kWeights) {
      EXPECT_EQ(output(i)[0], -1) << "nobody waited yet";
    }
    if (i > 0) expect_output(i - 1);
  }
  expect_output(kRuns - 1);
}

TEST_P(RunsAhead, AreWaitedForByWhateverComesNext) {
  ASSERT_EQ(run_once(1, DIF_RUN_AHEAD), DIF_OK) << text;
  ASSERT_EQ(run(2), DIF_OK) << text;
  expect_steps(2);
  expect_output(1);
  ASSERT_EQ(run_once(3, DIF_RUN_AHEAD), DIF_OK) << text;
  dif_prepare_options no_program = {};
  no_program.struct_size = sizeof(no_program);
  dif_prepared* none = nullptr;
  EXPECT_EQ(api.prepare(context, &no_program, &none, &error), DIF_ERROR_INVALID);
  expect_output(3);
  ASSERT_EQ(run_once(2, DIF_RUN_AHEAD), DIF_OK) << text;
  api.prepared_destroy(std::exchange(prepared, nullptr));
  expect_output(2);
}

TEST_P(RunsAhead, LeaveMemoryAloneOnceOneWasStopped) {
  ASSERT_EQ(run_once(0, DIF_RUN_AHEAD), DIF_OK) << text;
  polls_until_cancelled = 0;
  EXPECT_EQ(run_once(1, DIF_RUN_AHEAD), DIF_ERROR_CANCELLED) << text;
  polls_until_cancelled = INT32_MAX;
  std::fill(output(0), output(kRuns), 7.0f);
  ASSERT_EQ(run_once(2, DIF_RUN_AHEAD), DIF_OK) << text;
  ASSERT_EQ(run_once(3, 0), DIF_OK) << text;
  expect_output(2);
  expect_output(3);
  EXPECT_EQ(output(0)[5], 7) << "that run is over";
}

TEST_P(RunsAhead, NeedMemoryOfTheContextAndElseReturnWhenTheyAreComplete) {
  StepTensors tensors(f32({kWidth}), x.data(), found.data());
  dif_run_options options = tensors.run();
  options.flags = DIF_RUN_AHEAD;
  ASSERT_EQ(api.run(prepared, &options, &error), DIF_OK) << text;
  expect_steps(1);
  dif_loop_options loop = tensors.loop(2);
  loop.run.flags = DIF_RUN_AHEAD;
  EXPECT_EQ(api.run_loop(prepared, &loop, &error), DIF_ERROR_INVALID);
  dif_report report = {};
  report.struct_size = sizeof(report);
  ASSERT_EQ(api.report(prepared, &report, &error), DIF_OK) << text;
  const std::uint64_t before = report.pinned_host_bytes;
  api.host_release(context, std::exchange(blocks[1], nullptr));
  ASSERT_EQ(api.report(prepared, &report, &error), DIF_OK) << text;
  EXPECT_EQ(before - report.pinned_host_bytes, kRuns * kBytes);
}

INSTANTIATE_TEST_SUITE_P(ResidentAndStreamed, RunsAhead,
                         ::testing::Combine(::testing::Values(kWeights, 6),
                                            ::testing::Values(Lane::kRun, Lane::kCopy)));

}  // namespace
}  // namespace dif::runtime
