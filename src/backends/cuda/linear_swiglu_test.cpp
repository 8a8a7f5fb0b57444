/// Which products are one kernel with the SwiGLU behind them, and what is said where they are not. The
/// numbers are the business of gpu_test.cpp.
#include <gtest/gtest.h>

#include "backends/cuda/cuda_device.h"
#include "backends/cuda/kernel_list.h"
#include "backends/cuda/kernels.h"
#include "backends/cuda/testing_driver.h"
#include "backends/cuda/testing_programs.h"
#include "runtime/executor.h"
#include "tests/support/program_parser.h"

namespace dif::cuda {
namespace {

using Sets = std::vector<std::vector<ir::OpId>>;

Sets found_in(std::string_view operations, std::string_view output = "%9") {
  const std::string text = fmt::format(
      "program swiglu\ninputs\n  %0 = x : bf16[2, 64, 64]\n  %1 = z : bf16[2, 64, 64]\nconstants\n"
      "  %2 = a : bf16[128, 64]\n  %3 = b : bf16[128, 64]\n  %4 = w : bf16[256, 64]\n"
      "  %5 = bias : bf16[128]\noperations\n{}outputs\n  y = {}\n",
      operations, output);
  const auto program = test::parse_program(text);
  EXPECT_TRUE(program) << program.error().message;
  return program ? find_linear_swiglus(*program) : Sets();
}

TEST(LinearSwiglu, IsTwoProductsOfOneOperand) {
  EXPECT_EQ(found_in("  %6 = linear(%x, %a) : bf16[2, 64, 128]\n"
                     "  %7 = silu(%6) : bf16[2, 64, 128]\n"
                     "  %8 = linear(%x, %b) : bf16[2, 64, 128]\n"
                     "  %9 = mul(%8, %7) : bf16[2, 64, 128]\n"),
            (Sets{{0, 1, 2, 3}}));
}

TEST(LinearSwiglu, IsOneProductReadInHalves) {
  EXPECT_EQ(found_in("  %6 = linear(%x, %w) : bf16[2, 64, 256]\n"
                     "  %7 = slice(%6) {axis = 2, start = 0, end = 128} : bf16[2, 64, 128]\n"
                     "  %8 = silu(%7) : bf16[2, 64, 128]\n"
                     "  %9 = slice(%6) {axis = 2, start = 128, end = 256} : bf16[2, 64, 128]\n"
                     "  %10 = mul(%8, %9) : bf16[2, 64, 128]\n",
                     "%10"),
            (Sets{{0, 1, 2, 3, 4}}));
}

TEST(LinearSwiglu, IsNotWhatOthersRead) {
  EXPECT_EQ(found_in("  %6 = linear(%x, %a) : bf16[2, 64, 128]\n"
                     "  %7 = silu(%6) : bf16[2, 64, 128]\n"
                     "  %8 = linear(%x, %b) : bf16[2, 64, 128]\n"
                     "  %9 = mul(%7, %8) : bf16[2, 64, 128]\n"
                     "  %10 = add(%9, %8) : bf16[2, 64, 128]\n",
                     "%10"),
            Sets());
}

TEST(LinearSwiglu, HasOneOperandAndNoBias) {
  EXPECT_EQ(found_in("  %6 = linear(%x, %a) : bf16[2, 64, 128]\n"
                     "  %7 = silu(%6) : bf16[2, 64, 128]\n"
                     "  %8 = linear(%z, %b) : bf16[2, 64, 128]\n"
                     "  %9 = mul(%7, %8) : bf16[2, 64, 128]\n"),
            Sets());
  EXPECT_EQ(found_in("  %6 = linear(%x, %a) : bf16[2, 64, 128]\n"
                     "  %7 = silu(%6) : bf16[2, 64, 128]\n"
                     "  %8 = linear(%x, %b, %bias) : bf16[2, 64, 128]\n"
                     "  %9 = mul(%7, %8) : bf16[2, 64, 128]\n"),
            Sets());
}

/// A device on a driver that computes nothing, and a program prepared there.
struct Prepared {
  DriverApi driver = testing::accepting_driver();
  CompilerApi compiler;
  std::unique_ptr<CudaDevice> device;

  explicit Prepared(int capability = 90) {
    compiler.nvrtcCreateProgram = [](nvrtcProgram*, const char*, const char*, int, const char* const*,
                                     const char* const*) { return NVRTC_ERROR_INTERNAL_ERROR; };
    compiler.nvrtcDestroyProgram = [](nvrtcProgram*) { return NVRTC_SUCCESS; };
    compiler.nvrtcGetErrorString = [](nvrtcResult) { return "no compiler"; };
    device = std::move(*CudaDevice::create(driver, compiler, testing::facts(capability), {}));
  }

  /// What the report says.
  Result<std::string> report(const ir::Program& program, std::vector<runtime::LinearChoice> choices = {}) {
    runtime::SharedArena arena(*device);
    runtime::ExecutorOptions options = {
        .kernels = kernel_list(),
        .group_kernels = group_kernel_list(),
        .fusion = {.accepts = accept_in_group, .leads = accept_as_leader, .wholes = find_linear_swiglus}};
    options.execution.linears = std::move(choices);
    DIF_ASSIGN(const auto executor, runtime::Executor::prepare(program, {}, *device, arena, options));
    return executor->report().details;
  }
};

TEST(LinearSwiglu, IsOneKernelWhereTheCallerSaysSo) {
  for (const bool joined : {false, true}) {
    const auto report = Prepared().report(testing::swiglu(DType::kBF16, 2, 64, 64, 128, joined),
                                          {{.operation = 0, .swiglu = true}});
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_NE(report->find("wgmma_linear_swiglu"), std::string::npos) << *report;
  }
}

TEST(LinearSwiglu, UnaskedItDeclines) {
  const auto report = Prepared().report(testing::swiglu(DType::kBF16, 2, 64, 64, 128, false));
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_NE(report->find("wgmma_linear_swiglu: it runs where the caller asks for it"), std::string::npos)
      << *report;
  EXPECT_EQ(report->find("\"kernel\":\"wgmma_linear_swiglu\""), std::string::npos) << *report;
}

TEST(LinearSwiglu, SaysWhyItIsNotThere) {
  const auto refused = [](int capability, DType dtype, std::int64_t depth, const std::string& reason) {
    const auto report =
        Prepared(capability)
            .report(testing::swiglu(dtype, 2, 64, depth, 128, false), {{.operation = 0, .swiglu = true}});
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().code, ErrorCode::kInvalidInput);
    EXPECT_NE(report.error().message.find(reason), std::string::npos) << report.error().message;
  };
  refused(80, DType::kBF16, 64, "compute capability 9.0");
  refused(90, DType::kF32, 64, "bf16, not f32");
  refused(90, DType::kBF16, 60, "no multiples of 16 bytes");
  const auto other =
      Prepared().report(testing::block(DType::kBF16, 40, 3, 128), {{.operation = 5, .swiglu = true}});
  ASSERT_FALSE(other);
}

}  // namespace
}  // namespace dif::cuda
