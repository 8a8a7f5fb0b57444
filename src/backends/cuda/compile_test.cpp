/// Every kernel text that the operations ask for is compiled by NVRTC, which needs no GPU; the launches go to
/// a driver that computes nothing. Registered where NVRTC is installed.
#include <gtest/gtest.h>

#include <cstdlib>

#include "backends/cuda/compiler.h"
#include "backends/cuda/cuda_device.h"
#include "backends/cuda/kernel_list.h"
#include "backends/cuda/kernels.h"
#include "backends/cuda/testing_driver.h"
#include "backends/cuda/testing_programs.h"
#include "runtime/executor.h"
#include "tests/conformance/instance.h"

namespace dif::cuda {
namespace {

class Compile : public ::testing::Test {
 protected:
  Compile() {
    // The libraries that need a GPU are not there, so that every generated kernel has its turn.
    setenv("DIF_CUBLASLT_PATH", "/dev/null", 1);
    setenv("DIF_CUDNN_PATH", "/dev/null", 1);
    auto loaded = CompilerApi::load();
    EXPECT_TRUE(loaded) << loaded.error().message;
    compiler_ = *loaded;
    device_ = std::move(*CudaDevice::create(driver_, *compiler_, testing::facts(), {}));
  }

  DriverApi driver_ = testing::accepting_driver();
  const CompilerApi* compiler_ = nullptr;
  std::unique_ptr<CudaDevice> device_;
};

TEST_F(Compile, EveryOperationInEveryDtypeOfItsCases) {
  for (const auto& [op, cases] : conformance::all_cases())
    for (const DType dtype : cases.dtypes)
      for (const std::uint64_t seed : {1ULL}) {
        SCOPED_TRACE(fmt::format("{} {} seed {}", op->name, dtype, seed));
        conformance::Random random(seed);
        const conformance::Instance instance = cases.make(random, dtype);
        std::vector<runtime::HostConstant> constants;
        for (const io::HostTensor& constant : instance.constants)
          constants.push_back({constant.data.data(), constant.data.size()});
        runtime::SharedArena arena(*device_);
        auto executor = runtime::Executor::prepare(instance.program, constants, *device_, arena,
                                                   {.kernels = kernel_list()});
        ASSERT_TRUE(executor) << executor.error().message;
        std::vector<runtime::BufferView> inputs(instance.inputs.size(), {reinterpret_cast<void*>(4096), 0});
        const std::vector<runtime::BufferView> outputs = {{reinterpret_cast<void*>(8192), 0}};
        const Status status = (*executor)->run(inputs, outputs, {});
        EXPECT_TRUE(status) << status.error().message;
      }
}

TEST_F(Compile, TheGroupsOfATransformerBlock) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16})
    for (const std::int64_t width : {128, 6}) {
      const ir::Program program = testing::block(dtype, 40, 3, width);
      const std::vector<std::byte> bytes(1 << 21);
      std::vector<runtime::HostConstant> constants;
      for (const ir::ValueId id : program.constants)
        constants.push_back({bytes.data(), program.type(id).bytes()});
      runtime::SharedArena arena(*device_);
      auto executor = runtime::Executor::prepare(program, constants, *device_, arena,
                                                 {.kernels = kernel_list(),
                                                  .group_kernels = group_kernel_list(),
                                                  .fusion = {.accepts = accept_in_group}});
      ASSERT_TRUE(executor) << executor.error().message;
      EXPECT_GE((*executor)->plan().groups.size(), 2U);
      const Status compiled = device_->finish_compiling();
      EXPECT_TRUE(compiled) << compiled.error().message;
    }
}

TEST_F(Compile, AProductWithTheSwigluBehindIt) {
  runtime::SharedArena arena(*device_);
  runtime::ExecutorOptions options = {.kernels = kernel_list(),
                                      .group_kernels = group_kernel_list(),
                                      .fusion = {.accepts = accept_in_group, .wholes = find_linear_swiglus}};
  options.execution.linears = {{.operation = 0, .swiglu = true}};
  auto executor = runtime::Executor::prepare(testing::swiglu(DType::kBF16, 2, 300, 72, 136, false), {},
                                             *device_, arena, options);
  ASSERT_TRUE(executor) << executor.error().message;
  const Status compiled = device_->finish_compiling();
  EXPECT_TRUE(compiled) << compiled.error().message;
  const std::vector<runtime::BufferView> inputs(3, {reinterpret_cast<void*>(4096), 0});
  const std::vector<runtime::BufferView> outputs = {{reinterpret_cast<void*>(8192), 0}};
  const Status status = (*executor)->run(inputs, outputs, {});
  EXPECT_TRUE(status) << status.error().message;
}

TEST_F(Compile, GroupNormWithTheSiluBehindIt) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16})
    for (const std::int64_t groups : {4, 8, 32}) {
      const ir::Program program = testing::image_block(dtype, 5, 7, 64, groups);
      const std::vector<std::byte> bytes(1 << 18);
      std::vector<runtime::HostConstant> constants;
      for (const ir::ValueId id : program.constants)
        constants.push_back({bytes.data(), program.type(id).bytes()});
      runtime::SharedArena arena(*device_);
      auto executor =
          runtime::Executor::prepare(program, constants, *device_, arena,
                                     {.kernels = kernel_list(),
                                      .group_kernels = group_kernel_list(),
                                      .fusion = {.accepts = accept_in_group, .leads = accept_as_leader}});
      ASSERT_TRUE(executor) << executor.error().message;
      // Without cuDNN the convolution and its addition fall apart.
      ASSERT_EQ((*executor)->plan().groups.size(), 1U);
      EXPECT_EQ((*executor)->plan().groups[0].ops, (std::vector<ir::OpId>{0, 1}));
    }
}

TEST_F(Compile, TheWaitBeforeTimesAreMarked) {
  const auto marked = device_->mark_time();
  ASSERT_TRUE(marked) << marked.error().message;
  EXPECT_TRUE(*marked);
  const Status compiled = device_->finish_compiling();
  EXPECT_TRUE(compiled) << compiled.error().message;
}

TEST_F(Compile, ABrokenTextGivesTheCompilersLog) {
  const auto binary = compile(*compiler_, "extern \"C\" __global__ void broken() { no_such_name; }", 90);
  ASSERT_FALSE(binary);
  EXPECT_EQ(binary.error().code, ErrorCode::kInternal);
  EXPECT_NE(binary.error().message.find("no_such_name"), std::string::npos) << binary.error().message;
}

TEST_F(Compile, AnUnknownArchitectureIsNamed) {
  const auto binary = compile(*compiler_, "extern \"C\" __global__ void empty() {}", 20);
  ASSERT_FALSE(binary);
  EXPECT_EQ(binary.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(binary.error().message.find("compute capability 2.0"), std::string::npos)
      << binary.error().message;
}

}  // namespace
}  // namespace dif::cuda
