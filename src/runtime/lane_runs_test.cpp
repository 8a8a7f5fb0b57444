/// Runs and loops through the C interface on a device with a copy lane: what is under way beside what.
#include <gtest/gtest.h>

#include "ir/program_file.h"
#include "runtime/abi_adapter.h"
#include "runtime/abi_codes.h"
#include "runtime/test_weights.h"

namespace dif::runtime {
namespace {

using test::budget_for;
using test::f32;
using test::finish;
using test::kBytes;
using test::kKernels;
using test::kWeights;
using test::kWidth;
using test::LaneDevice;
using test::StepTensors;
using test::Weights;

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
