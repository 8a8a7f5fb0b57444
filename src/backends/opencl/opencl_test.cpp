#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "backends/opencl/kernel_list.h"
#include "backends/opencl/opencl_device.h"
#include "backends/opencl/pointwise.h"
#include "ops/add/add.op.h"
#include "ops/add_scalar/add_scalar.op.h"
#include "ops/cast/cast.op.h"
#include "ops/conv2d/conv2d.op.h"
#include "ops/gather_rows/gather_rows.op.h"
#include "ops/mul/mul.op.h"
#include "ops/mul_scalar/mul_scalar.op.h"
#include "ops/reshape/reshape.op.h"
#include "ops/silu/silu.op.h"
#include "ops/sqrt/sqrt.op.h"
#include "ops/sub/sub.op.h"
#include "runtime/axes.h"
#include "runtime/executor.h"
#include "runtime/test_programs.h"
#include "tests/conformance/random.h"
#include "tests/support/paths.h"

/// Needs an OpenCL device: PoCL (package pocl-opencl-icd) is one on every machine.
namespace dif::opencl {
namespace {

using runtime::test::expect_error;
using runtime::test::f32;
using runtime::test::finish;

std::unique_ptr<runtime::Device> open(runtime::DeviceOptions options = {}) {
  auto device = OpenClDevice::create(options);
  EXPECT_TRUE(device) << device.error().message;
  return device ? std::move(*device) : nullptr;
}

// --- axes
// ---------------------------------------------------------------------------------------------------

TEST(Axes, JoinWhereEveryTensorStepsEvenly) {
  const Shape shape = {2, 3, 4};
  const Axes dense = collapse(shape, {dense_strides(shape)});
  EXPECT_EQ(dense.sizes, (std::vector<std::int64_t>{24}));
  EXPECT_EQ(dense.inner_stride(0), 1);
  const Axes rows = collapse(shape, {dense_strides(shape), broadcast_strides({1, 4}, shape)});
  EXPECT_EQ(rows.sizes, (std::vector<std::int64_t>{6, 4}));
  EXPECT_EQ(rows.strides[1], (std::vector<std::int64_t>{0, 1}));
  EXPECT_EQ(rows.rows(), 6);
}

TEST(Axes, OfASingleElementAreOne) {
  const Axes axes = collapse({1, 1}, {{1, 1}});
  EXPECT_EQ(axes.sizes, (std::vector<std::int64_t>{1}));
  EXPECT_EQ(axes.rows(), 1);
}

// --- device
// -------------------------------------------------------------------------------------------------

TEST(OpenClDevice, SaysHowManyDevicesThereAre) {
  expect_error(OpenClDevice::create({.device = 999}), ErrorCode::kUnavailable,
               "there is no OpenCL device 999; there ");
}

TEST(OpenClDevice, CountsBuffersUnderTheCap) {
  const auto device = open({.cap_bytes = 1000});
  auto first = runtime::DeviceBuffer::create(*device, 600);
  ASSERT_TRUE(first) << first.error().message;
  expect_error(runtime::DeviceBuffer::create(*device, 401), ErrorCode::kOutOfMemory,
               "401 bytes more would exceed the memory cap of 1000 bytes (600 are held)");
  *first = runtime::DeviceBuffer();
  EXPECT_TRUE(runtime::DeviceBuffer::create(*device, 1000));
}

TEST(OpenClDevice, RefusesABufferThatNoDeviceHas) {
  expect_error(runtime::DeviceBuffer::create(*open(), UINT64_MAX / 2), ErrorCode::kOutOfMemory,
               "choose a smaller size");
}

TEST(OpenClDevice, MovesBytesAtOffsets) {
  const auto device = open();
  auto buffer = runtime::DeviceBuffer::create(*device, 16);
  ASSERT_TRUE(buffer);
  const auto at = [&](std::uint64_t offset) { return runtime::BufferView{buffer->view().base, offset}; };
  ASSERT_TRUE(device->upload(at(3), "abcde", 5));
  ASSERT_TRUE(device->copy(at(10), at(4), 3));
  char found[3] = {};
  ASSERT_TRUE(device->download(found, at(10), 3));
  EXPECT_EQ(std::string(found, 3), "bcd");
  const runtime::DeviceCounters counted = device->counters();
  EXPECT_EQ(counted.allocations, 1U);
  EXPECT_EQ(counted.copies, 3U);
  EXPECT_EQ(counted.launches, 0U);
}

TEST(OpenClDevice, AKernelThatDoesNotCompileIsOurBugAndQuotesTheCompiler) {
  const auto device = open();
  const auto kernel =
      device_of(device.get()).kernel("kernel void k() { no_such_function(1); }", "k", {1, 1, 1});
  expect_error(kernel, ErrorCode::kInternal, "no_such_function");
}

// --- programs on disk
// ---------------------------------------------------------------------------------------

/// y[0] = n
std::string constant_text(int n) {
  return fill(
      "kernel __attribute__((reqd_work_group_size(1, 1, 1)))\n"
      "void k(global uchar* y_buffer, ulong y_offset) {\n"
      "  global int* y = (global int*)(y_buffer + y_offset);\n  y[0] = @n@;\n}\n",
      {{"n", fmt::format("{}", n)}});
}

/// What the kernel wrote, and whether its program was compiled.
std::pair<int, bool> run_constant(const std::string& cache_folder, int n) {
  const auto device = open({.cache_folder = cache_folder});
  auto y = runtime::DeviceBuffer::create(*device, sizeof(int));
  auto kernel = device_of(device.get()).kernel(constant_text(n), "k", {1, 1, 1});
  EXPECT_TRUE(kernel) << kernel.error().message;
  EXPECT_TRUE(kernel->launch({1, 1, 1}, {y->view()}));
  EXPECT_EQ(device->counters().launches, 1U);
  int found = 0;
  EXPECT_TRUE(device->download(&found, y->view(), sizeof(found)));
  return {found, device_of(device.get()).n_compiled() == 1};
}

std::vector<std::filesystem::path> kept_files(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.is_regular_file() && entry.path().extension() == ".difcache") files.push_back(entry.path());
  return files;
}

TEST(ProgramsOnDisk, AreKeptAndUsed) {
  const test::ScratchDir scratch;
  EXPECT_EQ(run_constant(scratch.path(), 41), std::pair(41, true));
  ASSERT_EQ(kept_files(scratch.path()).size(), 1U);
  EXPECT_EQ(run_constant(scratch.path(), 41), std::pair(41, false));
  EXPECT_EQ(run_constant(scratch.path(), 42), std::pair(42, true)) << "another source is another program";
  EXPECT_EQ(kept_files(scratch.path()).size(), 2U);
}

TEST(ProgramsOnDisk, DamagedOnesAreCompiledAgain) {
  const test::ScratchDir scratch;
  EXPECT_EQ(run_constant(scratch.path(), 43), std::pair(43, true));
  const auto files = kept_files(scratch.path());
  ASSERT_EQ(files.size(), 1U);
  const auto size = std::filesystem::file_size(files[0]);
  for (const std::uintmax_t left : {size / 2, std::uintmax_t{0}}) {
    std::filesystem::resize_file(files[0], left);
    EXPECT_EQ(run_constant(scratch.path(), 43), std::pair(43, true)) << left << " of " << size << " bytes";
    EXPECT_EQ(std::filesystem::file_size(files[0]), size);
  }
  {
    std::fstream file(files[0], std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(size / 2));
    file << "damage";
  }
  EXPECT_EQ(run_constant(scratch.path(), 43), std::pair(43, true));
}

// --- kernels
// ------------------------------------------------------------------------------------------------

using Tensors = std::vector<io::HostTensor>;

/// Runs a program on the device, with or without groups; `kernels` becomes the number of steps that ran.
Tensors run(const ir::Program& program, const Tensors& inputs, bool grouped, int* kernels = nullptr) {
  const auto device = open();
  runtime::SharedArena arena(*device);
  runtime::ExecutorOptions options;
  options.kernels = kernel_list();
  if (grouped) {
    options.group_kernels = group_kernel_list();
    options.fusion = {.accepts = accepts_in_group, .max_operations = 12};
  }
  auto executor = runtime::Executor::prepare(program, {}, *device, arena, options);
  EXPECT_TRUE(executor) << executor.error().message;
  Tensors outputs;
  if (!executor) return outputs;
  std::vector<runtime::DeviceBuffer> buffers;
  std::vector<runtime::BufferView> ins, outs;
  for (const io::HostTensor& input : inputs) {
    buffers.push_back(*runtime::DeviceBuffer::create(*device, input.data.size()));
    ins.push_back(buffers.back().view());
    EXPECT_TRUE(device->upload(ins.back(), input.data.data(), input.data.size()));
  }
  for (const ir::Output& output : program.outputs) {
    const ir::TensorType& type = program.type(output.value);
    outputs.emplace_back(type.dtype, type.shape);
    buffers.push_back(*runtime::DeviceBuffer::create(*device, type.bytes()));
    outs.push_back(buffers.back().view());
  }
  int n_kernels = 0;
  runtime::RunHooks hooks;
  hooks.trace = [&](const runtime::OpTrace& trace) {
    ++n_kernels;
    EXPECT_GT(trace.nanoseconds, 0U) << trace.op_name;
  };
  const Status status = (*executor)->run(ins, outs, hooks);
  EXPECT_TRUE(status) << status.error().message;
  for (std::size_t i = 0; i < outs.size(); ++i)
    EXPECT_TRUE(device->download(outputs[i].data.data(), outs[i], outputs[i].data.size()));
  if (kernels != nullptr) *kernels = n_kernels;
  return outputs;
}

class ElementGroups : public testing::TestWithParam<DType> {};

TEST_P(ElementGroups, HaveTheBitsOfTheirOperations) {
  const DType dtype = GetParam();
  conformance::Random random(7);
  ir::Builder b("gate");
  Tensors inputs;
  const auto input = [&](const char* name, const Shape& shape) {
    inputs.push_back(random.special({dtype, shape}));
    return b.input(name, {dtype, shape});
  };
  // Rows of 37, so that every row ends inside a vector; a view splits the last axis in between.
  const ir::Value x = input("x", {2, 5, 37 * 3}), gate = input("gate", {2, 1, 37 * 3}),
                  heads = input("heads", {3, 37}), scalar = input("scalar", {1});
  const ir::Value gated = ops::mul(b, ops::silu(b, ops::add(b, x, scalar)), gate);
  const ir::Value split = ops::reshape(b, gated, {2, 5, 3, 37});
  const ir::Value moved = ops::sub(b, ops::add_scalar(b, ops::mul_scalar(b, split, 0.3f), 1.7f), heads);
  b.output("gated", gated);
  b.output("y", ops::sqrt(b, ops::cast(b, moved, DType::kF32)));
  const ir::Program program = finish(b);
  int single = 0, grouped = 0;
  const Tensors want = run(program, inputs, false, &single), got = run(program, inputs, true, &grouped);
  EXPECT_EQ(single, 8);
  EXPECT_EQ(grouped, 1);
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_EQ(got[i].data, want[i].data) << i;
}

INSTANTIATE_TEST_SUITE_P(, ElementGroups, testing::Values(DType::kF32, DType::kBF16, DType::kF16),
                         [](const auto& info) { return std::string(dtype_name(info.param)); });

TEST(Convolution, LargerThanABandIsTheSameAsInOnePiece) {
  // One tap of a 3x3 kernel is 1: the result is the input, moved; a padded copy is 90 MB, a band 64 MiB.
  constexpr std::int64_t kSize = 4700;
  ir::Builder b("shift");
  const ir::Value x = b.input("x", f32({1, 1, kSize, kSize})), w = b.input("w", f32({1, 1, 3, 3}));
  b.output("y", ops::conv2d(b, x, w, std::nullopt, {.pads = {1, 1, 1, 1}}));
  std::vector<float> pixels(kSize * kSize), taps = {0, 1, 0, 0, 0, 0, 0, 0, 0};
  std::iota(pixels.begin(), pixels.end(), 0.0f);
  const Tensors y = run(
      finish(b), {io::HostTensor::f32({1, 1, kSize, kSize}, pixels), io::HostTensor::f32({1, 1, 3, 3}, taps)},
      false);
  ASSERT_EQ(y.size(), 1U);
  const auto found = y[0].as<float>();
  std::size_t wrong = 0;
  for (std::int64_t i = 0; i < kSize * kSize; ++i)
    wrong += found[static_cast<std::size_t>(i)] !=
             (i < kSize ? 0.0f : pixels[static_cast<std::size_t>(i - kSize)]);
  EXPECT_EQ(wrong, 0U);
}

TEST(GatherRows, AnIdOutsideTheTableStopsTheRun) {
  const auto context = runtime::test::open("opencl");
  ir::Builder b("rows");
  const ir::Value table = b.input("table", f32({3, 2})), ids = b.input("ids", {DType::kI32, {2}});
  b.output("y", ops::gather_rows(b, table, ids));
  const auto prepared = runtime::test::prepare(context, finish(b));
  std::vector<float> rows(6), y(4);
  std::vector<std::int32_t> wanted = {0, 3};
  const auto status = prepared->run(
      std::vector{runtime::test::bound(f32({3, 2}), rows), runtime::test::bound({DType::kI32, {2}}, wanted)},
      std::vector{runtime::test::bound(f32({2, 2}), y)});
  expect_error(status, ErrorCode::kInvalidInput, "id 3 at position 1 is outside 0 .. 2");
}

}  // namespace
}  // namespace dif::opencl
