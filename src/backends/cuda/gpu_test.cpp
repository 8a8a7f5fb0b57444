/// What only a GPU can show: what a run may do, that groups have the bits of their operations, and that
/// compiled kernels are found again. Values are the business of tests/conformance.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>

#include "backends/cuda/cuda_device.h"
#include "backends/cuda/kernel_list.h"
#include "backends/cuda/kernels.h"
#include "backends/cuda/row_steps.h"
#include "backends/cuda/testing_programs.h"
#include "ops/add/add.op.h"
#include "ops/attention/attention.op.h"
#include "ops/gather_rows/gather_rows.op.h"
#include "ops/linear/linear.op.h"
#include "runtime/executor.h"
#include "runtime/session.h"
#include "runtime/test_programs.h"
#include "tests/conformance/random.h"
#include "tests/support/paths.h"

namespace dif::cuda {
namespace {

using runtime::DeviceBuffer;

std::unique_ptr<CudaDevice> open_device(const runtime::DeviceOptions& options = {}) {
  auto device = CudaDevice::create(options);
  EXPECT_TRUE(device) << device.error().message;
  return std::unique_ptr<CudaDevice>(device ? static_cast<CudaDevice*>(device->release()) : nullptr);
}

/// A program on a GPU with random inputs and constants.
class OnGpu {
 public:
  OnGpu(CudaDevice& device, const ir::Program& program, bool groups, std::uint64_t seed = 1,
        const runtime::WeightOptions& weights = {}, bool in_place = false,
        const runtime::ExecutionOptions& execution = {})
      : device_(device), arena_(device) {
    conformance::Random random(seed);
    for (const ir::ValueId id : program.constants) constants_.push_back(tensor(random, program.type(id)));
    std::vector<runtime::HostConstant> constants;
    for (const io::HostTensor& constant : constants_)
      constants.push_back({constant.data.data(), constant.data.size()});
    runtime::ExecutorOptions options = {.kernels = kernel_list()};
    options.weights = weights;
    options.execution = execution;
    if (groups) {
      options.group_kernels = group_kernel_list();
      options.fusion = {.accepts = accept_in_group, .leads = accept_as_leader, .wholes = find_linear_swiglus};
    }
    if (in_place) options.pitches = {.reads = reads_pitched, .writes = writes_pitched};
    auto executor = runtime::Executor::prepare(program, constants, device, arena_, options);
    EXPECT_TRUE(executor) << executor.error().message;
    executor_ = std::move(*executor);
    for (const ir::ValueId id : program.inputs) {
      const io::HostTensor input = tensor(random, program.type(id));
      inputs_.push_back(*DeviceBuffer::create(device, input.data.size()));
      EXPECT_TRUE(device.upload(inputs_.back().view(), input.data.data(), input.data.size()));
    }
    for (const ir::Output& output : program.outputs)
      outputs_.push_back(*DeviceBuffer::create(device, program.type(output.value).bytes()));
  }

  Status run() { return executor_->run(views(inputs_), views(outputs_), {}); }
  void write_input(std::size_t i, const void* bytes) {
    EXPECT_TRUE(device_.upload(inputs_[i].view(), bytes, inputs_[i].bytes()));
  }
  std::vector<std::byte> output(std::size_t i) {
    std::vector<std::byte> bytes(outputs_[i].bytes());
    EXPECT_TRUE(device_.download(bytes.data(), outputs_[i].view(), bytes.size()));
    return bytes;
  }
  const runtime::Executor& executor() const { return *executor_; }

 private:
  static io::HostTensor tensor(conformance::Random& random, const ir::TensorType& type) {
    if (type.dtype == DType::kI32)
      return io::HostTensor(type.dtype, type.shape, std::vector<std::byte>(type.bytes()));
    return random.normal(type);
  }
  static std::vector<runtime::BufferView> views(const std::vector<DeviceBuffer>& buffers) {
    std::vector<runtime::BufferView> result;
    for (const DeviceBuffer& buffer : buffers) result.push_back(buffer.view());
    return result;
  }

  CudaDevice& device_;
  runtime::SharedArena arena_;
  std::vector<io::HostTensor> constants_;
  std::unique_ptr<runtime::Executor> executor_;
  std::vector<DeviceBuffer> inputs_, outputs_;
};

TEST(CudaRun, IsOneGraphLaunchWithoutAllocationsOnceItRepeats) {
  const auto device = open_device();
  ASSERT_NE(device, nullptr);
  OnGpu program(*device, dif::cuda::testing::block(DType::kBF16, 64, 4, 64), true);
  ASSERT_TRUE(program.run());
  const std::vector<std::byte> first = program.output(2);
  ASSERT_TRUE(program.run());
  const runtime::DeviceCounters before = device->counters();
  ASSERT_TRUE(program.run());
  const runtime::DeviceCounters after = device->counters();
  EXPECT_EQ(after.allocations - before.allocations, 0U);
  EXPECT_EQ(after.launches - before.launches, 0U);
  EXPECT_EQ(after.graph_launches - before.graph_launches, 1U);
  EXPECT_EQ(after.synchronizations - before.synchronizations, 1U) << "the end of the run";
  EXPECT_EQ(after.copies - before.copies, 0U);
  EXPECT_EQ(program.output(2), first) << "the recorded run has the bits of the first";
}

TEST(CudaRun, ARecordedRunReadsItsInputsAnew) {
  const auto device = open_device();
  ASSERT_NE(device, nullptr);
  ir::Builder b("sum");
  const ir::Value x = b.input("x", {DType::kF32, {2}}), z = b.input("z", {DType::kF32, {2}});
  b.output("y", ops::add(b, x, z));
  OnGpu program(*device, runtime::test::finish(b), false);
  for (float value : {1.0f, 2.0f, 3.0f, 4.0f}) {
    const float two[2] = {value, 10 * value};
    program.write_input(0, two);
    program.write_input(1, two);
    ASSERT_TRUE(program.run());
    float y[2] = {};
    std::memcpy(y, program.output(0).data(), sizeof(y));
    EXPECT_EQ(y[0], 2 * value);
    EXPECT_EQ(y[1], 20 * value);
  }
}

struct Shape3 {
  std::int64_t tokens, heads, width;
};

class CudaGroups : public ::testing::TestWithParam<std::tuple<DType, Shape3>> {};

TEST_P(CudaGroups, HaveTheBitsOfTheirOperations) {
  const auto& [dtype, shape] = GetParam();
  const auto device = open_device();
  ASSERT_NE(device, nullptr);
  const ir::Program program = dif::cuda::testing::block(dtype, shape.tokens, shape.heads, shape.width);
  OnGpu grouped(*device, program, true), single(*device, program, false);
  EXPECT_GE(grouped.executor().plan().groups.size(), 2U);
  ASSERT_TRUE(grouped.run());
  ASSERT_TRUE(single.run());
  for (std::size_t i = 0; i < program.outputs.size(); ++i)
    EXPECT_EQ(grouped.output(i), single.output(i)) << program.outputs[i].name;
}

INSTANTIATE_TEST_SUITE_P(, CudaGroups,
                         ::testing::Combine(::testing::Values(DType::kF32, DType::kBF16, DType::kF16),
                                            ::testing::Values(Shape3{64, 4, 64}, Shape3{7, 3, 20},
                                                              Shape3{33, 24, 128}, Shape3{5, 1, 2},
                                                              Shape3{3, 9, 6})));

struct ImageShape {
  std::int64_t height, width, channels, groups;
};

class CudaImageGroups : public ::testing::TestWithParam<std::tuple<DType, ImageShape>> {};

/// A norm with its activation has the bits of both; a convolution with what is added is rounded once, not
/// twice.
TEST_P(CudaImageGroups, AreTheirOperations) {
  const auto& [dtype, shape] = GetParam();
  const auto device = open_device();
  ASSERT_NE(device, nullptr);
  const ir::Program program =
      dif::cuda::testing::image_block(dtype, shape.height, shape.width, shape.channels, shape.groups);
  OnGpu grouped(*device, program, true), single(*device, program, false);
  // cuDNN may have no f32 plan that adds; the norm's group does not depend on it.
  EXPECT_GE(grouped.executor().plan().groups.size(), dtype == DType::kF32 ? 1U : 2U);
  ASSERT_TRUE(grouped.run());
  ASSERT_TRUE(single.run());
  EXPECT_EQ(grouped.output(0), single.output(0));
  const auto y = [&](OnGpu& run) {
    return io::HostTensor(dtype, program.type(program.outputs[1].value).shape, run.output(1)).to_f32();
  };
  const std::vector<float> found = y(grouped), expected = y(single);
  // Two roundings against one, of sums that reach some 250.
  const double allowed = dtype == DType::kBF16 ? 1.0 / 64 : dtype == DType::kF16 ? 1.0 / 512 : 1e-5;
  for (std::size_t i = 0; i < found.size(); ++i)
    ASSERT_NEAR(found[i], expected[i], allowed * (std::abs(expected[i]) + 64)) << i;
}

INSTANTIATE_TEST_SUITE_P(, CudaImageGroups,
                         ::testing::Combine(::testing::Values(DType::kF32, DType::kBF16, DType::kF16),
                                            ::testing::Values(ImageShape{9, 7, 64, 32},
                                                              ImageShape{64, 48, 128, 32},
                                                              ImageShape{17, 40, 512, 32})));

struct Streams {
  std::int64_t batches, image, heads, width;
};

class CudaInPlace : public ::testing::TestWithParam<std::tuple<DType, Streams>> {};

std::vector<float> floats_of(const ir::TensorType& type, const std::vector<std::byte>& bytes) {
  return io::HostTensor(type.dtype, type.shape, bytes).to_f32();
}

/// Products and attention may sum in another order where their operands lie otherwise, which shows as
/// rounding; a wrong place shows as an error of the size of the values.
TEST_P(CudaInPlace, WhatIsNotMovedHasTheSameValues) {
  const auto& [dtype, s] = GetParam();
  const auto device = open_device();
  ASSERT_NE(device, nullptr);
  const ir::Program program = dif::cuda::testing::streams(dtype, s.batches, s.image, s.heads, s.width);
  OnGpu moved(*device, program, true), in_place(*device, program, true, 1, {}, true);
  EXPECT_EQ(in_place.executor().plan().in_place.size(), 5U);
  for (int run = 0; run < 3; ++run) {  // the first, a recording, and a graph
    ASSERT_TRUE(moved.run());
    ASSERT_TRUE(in_place.run());
    for (std::size_t i = 0; i < program.outputs.size(); ++i) {
      const ir::TensorType& type = program.type(program.outputs[i].value);
      const std::vector<float> expected = floats_of(type, moved.output(i)),
                               found = floats_of(type, in_place.output(i));
      double error = 0, norm = 0;
      for (std::size_t k = 0; k < expected.size(); ++k) {
        error += (found[k] - expected[k]) * (found[k] - expected[k]);
        norm += expected[k] * expected[k];
      }
      EXPECT_LT(std::sqrt(error / norm), dtype == DType::kF32 ? 1e-5 : 2e-2) << program.outputs[i].name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, CudaInPlace,
                         ::testing::Combine(::testing::Values(DType::kF32, DType::kBF16),
                                            ::testing::Values(Streams{2, 48, 2, 64}, Streams{1, 48, 3, 128},
                                                              Streams{3, 100, 4, 32})));

TEST(CudaFiniteProbe, SeesNanAndInfinityAndStartsAfresh) {
  const auto device = open_device();
  ASSERT_NE(device, nullptr);
  const auto probe = *device->finite_probe();
  const ir::TensorType type = {DType::kF32, {1000}};
  const DeviceBuffer buffer = *DeviceBuffer::create(*device, type.bytes());
  for (const float value : {1.0f, HUGE_VALF, -1.0f, -HUGE_VALF, NAN, 3e38f}) {
    std::vector<float> x(1000, 1.0f);
    x[777] = value;
    ASSERT_TRUE(device->upload(buffer.view(), x.data(), type.bytes()));
    const std::uint64_t before = device->counters().synchronizations;
    ASSERT_TRUE(probe->submit({buffer.view(), &type}));
    const auto finite = probe->wait();
    ASSERT_TRUE(finite);
    EXPECT_EQ(*finite, std::isfinite(value)) << value;
    EXPECT_EQ(device->counters().synchronizations, before) << "it waits for its own work, not for the stream";
  }
}

TEST(CudaGatherRows, AnIdOutsideTheTableIsNamedAfterTheRun) {
  const auto device = open_device();
  ASSERT_NE(device, nullptr);
  ir::Builder b("gather");
  const ir::Value ids = b.input("ids", {DType::kI32, {3}});
  b.output("y", ops::gather_rows(b, b.constant("table", {DType::kF32, {4, 2}}), ids));
  OnGpu program(*device, runtime::test::finish(b), false);
  for (int round = 0; round < 3; ++round) {
    const std::int32_t wrong[3] = {1, 9, -5};
    program.write_input(0, wrong);
    const Status status = program.run();
    ASSERT_FALSE(status);
    EXPECT_NE(status.error().message.find("id 9 at position 1 is outside 0 .. 3"), std::string::npos)
        << status.error().message;
    const std::int32_t right[3] = {1, 3, 0};
    program.write_input(0, right);
    EXPECT_TRUE(program.run());
  }
}

TEST(CudaCache, ASecondDeviceCompilesNothing) {
  const test::ScratchDir folder;
  runtime::DeviceOptions options;
  options.cache_folder = folder.path().string();
  const ir::Program program = dif::cuda::testing::block(DType::kF16, 16, 2, 32);
  for (const bool first : {true, false}) {
    const auto device = open_device(options);
    ASSERT_NE(device, nullptr);
    OnGpu on_gpu(*device, program, true);
    ASSERT_TRUE(on_gpu.run());
    if (first)
      EXPECT_GT(device->counters().compilations, 0U);
    else
      EXPECT_EQ(device->counters().compilations, 0U);
  }
}

TEST(CudaMatmulChoice, IsMeasuredOnceAndFoundAgain) {
  const test::ScratchDir folder;
  runtime::DeviceOptions options;
  options.cache_folder = folder.path().string();
  ir::Builder b("product");
  const ir::Value x = b.input("x", {DType::kBF16, {1, 1024, 2048}});
  b.output("y", ops::linear(b, x, b.constant("w", {DType::kBF16, {2048, 2048}})));
  const ir::Program program = runtime::test::finish(b);
  std::string first;
  for (const bool again : {false, true}) {
    const auto device = open_device(options);
    ASSERT_NE(device, nullptr);
    OnGpu on_gpu(*device, program, true);
    const std::string& details = on_gpu.executor().report().details;
    const std::size_t at = details.find("\"choice\":");
    ASSERT_NE(at, std::string::npos) << details;
    const std::string choice = details.substr(at, details.find('}', at) - at);
    if (again) {
      EXPECT_EQ(choice, first);
    }
    EXPECT_EQ(device->counters().launches == 0, again) << "random operands are made for a measurement alone";
    first = choice;
    ASSERT_TRUE(on_gpu.run());
  }
}

TEST(CudaAttentionChoice, IsMeasuredOnRequestAndFoundAgain) {
  const test::ScratchDir folder;
  runtime::DeviceOptions options;
  options.cache_folder = folder.path().string();
  ir::Builder b("attention");
  const ir::Value q = b.input("q", {DType::kBF16, {1, 512, 8, 128}}),
                  k = b.input("k", {DType::kBF16, {1, 512, 2, 128}}),
                  v = b.input("v", {DType::kBF16, {1, 512, 2, 128}});
  const ir::Value mask = b.input("mask", {DType::kBool, {1, 512}});
  b.output("y", ops::attention(b, q, k, v, mask, true, 0.0884f));
  const ir::Program program = runtime::test::finish(b);
  std::string first;
  for (const bool again : {false, true}) {
    const auto device = open_device(options);
    ASSERT_NE(device, nullptr);
    runtime::SharedArena arena(*device);
    runtime::ExecutorOptions how = {kernel_list(), true, {}};
    how.execution.attention = runtime::AttentionHeuristic::kAutotune;
    const auto executor = runtime::Executor::prepare(program, {}, *device, arena, how);
    ASSERT_TRUE(executor) << executor.error().message;
    const std::string& details = (*executor)->report().details;
    EXPECT_NE(details.find("cudnn_attention"), std::string::npos) << "a mask is no reason to decline";
    const std::size_t at = details.find("\"choice\":");
    ASSERT_NE(at, std::string::npos) << details;
    const std::string choice = details.substr(at, details.find('}', at) - at);
    EXPECT_NE(choice.find("plans"), std::string::npos) << choice;
    if (again) {
      EXPECT_EQ(choice, first);
    }
    EXPECT_EQ(device->counters().launches == 0, again) << "random operands are made for a measurement alone";
    first = choice;
  }
}

TEST(CudaMatmulChoice, IsTheCallersWhereItSaysSo) {
  ir::Builder b("product");
  const ir::Value x = b.input("x", {DType::kBF16, {1, 256, 256}});
  b.output("y", ops::linear(b, x, b.constant("w", {DType::kBF16, {256, 256}})));
  const ir::Program program = runtime::test::finish(b);
  const auto choice_of = [&](const runtime::LinearChoice& choice) -> Result<std::string> {
    const auto device = open_device();
    const std::vector<std::byte> weights(256 * 256 * 2);
    runtime::SharedArena arena(*device);
    runtime::ExecutorOptions options = {kernel_list(), true, {}};
    options.execution.linears = {choice};
    DIF_ASSIGN(const auto executor, runtime::Executor::prepare(program, {{weights.data(), weights.size()}},
                                                               *device, arena, options));
    const std::string& details = executor->report().details;
    const std::size_t at = details.find("\"choice\":");
    return at == std::string::npos ? "" : details.substr(at, details.find('}', at) - at);
  };
  for (const std::uint32_t rank : {0U, 1U}) {
    const auto chosen = choice_of({.operation = 0, .rank = rank});
    ASSERT_TRUE(chosen) << chosen.error().message;
    EXPECT_NE(chosen->find(fmt::format("rank {} of", rank)), std::string::npos) << *chosen;
  }
  const auto measured = choice_of({.operation = 0, .warmups = 1, .iterations = 3, .sessions = 2});
  ASSERT_TRUE(measured) << measured.error().message;
  EXPECT_NE(measured->find("with the same bits"), std::string::npos) << "small, and measured all the same";
  const auto beyond = choice_of({.operation = 0, .rank = 1000});
  ASSERT_FALSE(beyond);
  EXPECT_EQ(beyond.error().code, ErrorCode::kInvalidInput);
  EXPECT_NE(beyond.error().message.find("none with the rank 1000"), std::string::npos)
      << beyond.error().message;
}

struct SwigluShape {
  std::int64_t batches, rows, depth, columns;
  bool joined, in_place;
};

class CudaLinearSwiglu : public ::testing::TestWithParam<SwigluShape> {};

/// Whole numbers, whose sums are exact in any order.
std::vector<std::byte> whole_numbers(const ir::TensorType& type, std::uint32_t seed) {
  std::vector<std::byte> bytes(type.bytes());
  for (std::size_t i = 0; i < bytes.size() / 2; ++i) {
    seed = seed * 1664525 + 1013904223;
    const float value = static_cast<float>(static_cast<int>(seed >> 24) % 7 - 3) / 8;
    std::memcpy(&bytes[2 * i], reinterpret_cast<const std::byte*>(&value) + 2, 2);
  }
  return bytes;
}

TEST_P(CudaLinearSwiglu, HasTheBitsOfItsOperationsWhereTheSumsAreExact) {
  const SwigluShape& s = GetParam();
  const auto device = open_device();
  ASSERT_NE(device, nullptr);
  const bool serves = device->facts().capability == 90;
  const ir::Program program =
      dif::cuda::testing::swiglu(DType::kBF16, s.batches, s.rows, s.depth, s.columns, s.joined);
  runtime::ExecutionOptions execution;
  if (serves) execution.linears = {{.operation = 0, .swiglu = true}};
  OnGpu fused(*device, program, true, 1, {}, s.in_place, execution), single(*device, program, false);
  const std::string& details = fused.executor().report().details;
  EXPECT_EQ(details.find("\"kernel\":\"wgmma_linear_swiglu\"") != std::string::npos, serves) << details;
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    const std::vector<std::byte> values =
        whole_numbers(program.type(program.inputs[i]), static_cast<std::uint32_t>(i));
    fused.write_input(i, values.data());
    single.write_input(i, values.data());
  }
  for (int again = 0; again < 2; ++again) {
    ASSERT_TRUE(fused.run());
    ASSERT_TRUE(single.run());
    EXPECT_EQ(fused.output(0), single.output(0));
  }
}

INSTANTIATE_TEST_SUITE_P(, CudaLinearSwiglu,
                         ::testing::Values(SwigluShape{1, 256, 64, 128, false, false},
                                           SwigluShape{2, 150, 200, 328, true, false},
                                           SwigluShape{1, 1, 8, 8, false, true},
                                           SwigluShape{2, 4608, 512, 1024, false, true},
                                           SwigluShape{3, 640, 1024, 2048, true, true}));

/// Eight products one after the other, 8 MiB of weights each.
ir::Program products() {
  ir::Builder b("products");
  ir::Value x = b.input("x", {DType::kBF16, {64, 2048}});
  for (int i = 0; i < 8; ++i)
    x = ops::linear(b, x, b.constant("w" + std::to_string(i), {DType::kBF16, {2048, 2048}}));
  b.output("y", x);
  return runtime::test::finish(b);
}

TEST(CudaStreaming, StreamedWeightsGiveTheBitsOfResidentOnes) {
  std::vector<std::byte> expected;
  std::uint64_t budget = 0;
  {
    const auto device = open_device();
    ASSERT_NE(device, nullptr);
    OnGpu resident(*device, products(), true);
    const runtime::ExecutorReport& report = resident.executor().report();
    EXPECT_EQ(report.streamed_bytes, 0U);
    ASSERT_TRUE(resident.run());
    expected = resident.output(0);
    // What the others take, and room for about five of the weights.
    budget = device->held_bytes() - report.resident_bytes + device->reserve_bytes() + (48 << 20) + (40 << 20);
  }
  for (const bool host_pinned : {false, true})
    for (const std::uint32_t distance : {0U, 1U, 2U}) {
      const auto device = open_device();
      ASSERT_NE(device, nullptr);
      runtime::WeightOptions weights;
      weights.budget_bytes = budget;
      weights.prefetch_distance = distance;
      weights.host_pinned = host_pinned;
      OnGpu streamed(*device, products(), true, 1, weights);
      EXPECT_GE(streamed.executor().report().streamed_bytes, std::uint64_t{8} << 20);
      EXPECT_GE(streamed.executor().report().resident_bytes, std::uint64_t{8} << 20);
      for (int run = 0; run < 4; ++run) {
        ASSERT_TRUE(streamed.run());
        EXPECT_EQ(streamed.output(0), expected) << "run " << run << ", distance " << distance;
      }
      EXPECT_GT(device->counters().graph_launches, 2U) << "graphs between the streamed weights";
    }
}

TEST(CudaHostMemory, RunsAheadHaveTheirOutputsOnceTheNextOneIsBack) {
  constexpr std::int64_t kNumbers = 2 << 20, kRuns = 6;
  constexpr std::size_t kBytes = kNumbers * sizeof(float);
  const ir::TensorType type = {DType::kF32, {kNumbers}};
  ir::Builder b("double");
  const ir::Value x = b.input("x", type);
  b.output("y", ops::add(b, x, x));
  const auto context = runtime::test::open("cuda");
  ASSERT_NE(context, nullptr);
  const auto prepared = runtime::test::prepare(context, runtime::test::finish(b));
  ASSERT_NE(prepared, nullptr);
  auto in = runtime::HostMemory::create(context, kRuns * kBytes),
       out = runtime::HostMemory::create(context, kRuns * kBytes);
  ASSERT_TRUE(in) << in.error().message;
  ASSERT_TRUE(out) << out.error().message;
  const std::span xs(reinterpret_cast<float*>(in->data()), kRuns * kNumbers),
      ys(reinterpret_cast<float*>(out->data()), kRuns * kNumbers);
  for (std::size_t i = 0; i < xs.size(); ++i) xs[i] = static_cast<float>(i);
  const auto run = [&](std::int64_t i) {
    const std::array inputs = {runtime::Binding::of(type, {in->data() + i * kBytes, kBytes})};
    const std::array outputs = {runtime::Binding::of(type, {out->data() + i * kBytes, kBytes})};
    return prepared->run(inputs, outputs, {.ahead = i + 1 < kRuns});
  };
  const auto before = prepared->launches();
  ASSERT_TRUE(before);
  for (std::int64_t i = 0; i < kRuns; ++i) {
    const Status status = run(i);
    ASSERT_TRUE(status) << status.error().message;
    for (std::int64_t k = std::max<std::int64_t>(i - 1, 0) * kNumbers; k < i * kNumbers; ++k)
      ASSERT_EQ(ys[static_cast<std::size_t>(k)], 2 * static_cast<float>(k)) << "run " << i;
  }
  EXPECT_EQ(ys.back(), 2 * static_cast<float>(kRuns * kNumbers - 1));
  const auto after = prepared->launches();
  ASSERT_TRUE(after);
  EXPECT_EQ(after->since(*before).copies, 2U * kRuns + 2)
      << "from that memory, out of the arena, to that memory";
}

TEST(CudaMemory, TheCapIsNeverPassed) {
  runtime::DeviceOptions options;
  const auto device = open_device(options);
  ASSERT_NE(device, nullptr);
  options.cap_bytes = device->held_bytes() + (64 << 20);
  const auto capped = open_device(options);
  ASSERT_NE(capped, nullptr);
  const auto fits = DeviceBuffer::create(*capped, 16 << 20),
             does_not = DeviceBuffer::create(*capped, 64 << 20);
  EXPECT_TRUE(fits);
  ASSERT_FALSE(does_not);
  EXPECT_EQ(does_not.error().code, ErrorCode::kOutOfMemory);
}

TEST(CudaDevice, AnIndexThatIsNotThereIsRefused) {
  runtime::DeviceOptions options;
  options.device = 4096;
  const auto device = CudaDevice::create(options);
  ASSERT_FALSE(device);
  EXPECT_EQ(device.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(device.error().message.find("no device 4096"), std::string::npos) << device.error().message;
}

}  // namespace
}  // namespace dif::cuda
