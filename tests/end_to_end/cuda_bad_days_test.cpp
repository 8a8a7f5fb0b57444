/// What a user of the CUDA backend reads when something is wrong, on a stand-in for the driver and NVRTC
/// (backends/cuda/stand_in.cpp): one sentence, the status of its kind, nothing left behind.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/tools/tool_test.h"

namespace dif::test {
namespace {

class CudaBadDays : public ToolTest {
 protected:
  Running::Environment on(const std::string& day) const {
    const std::string stand_in = (bin_dir() / "examples/libdif_test_cuda.so").string();
    return {{"DIF_CUDA_DRIVER_PATH", stand_in},  {"DIF_NVRTC_PATH", stand_in},
            {"DIF_CUBLASLT_PATH", path("none")}, {"DIF_CUDNN_PATH", path("none")},
            {"DIF_CUDART_PATH", path("none")},   {"DIF_TEST_CUDA", day}};
  }
  Arguments tiny(const Arguments& more = {}) const {
    return Arguments{"generate",      "x",  "-o",        "a.png", "--size", "16x16", "--steps", "3",
                     "--text-tokens", "32", "--backend", "cuda",  "--quiet"} +
           more;
  }
  /// Ends with `status` and exactly one line, and leaves no file.
  void bad(const std::string& day, int status, const std::string& part, const Arguments& more = {}) const {
    const Finished finished = run("dif", tiny(more), on(day));
    EXPECT_EQ(finished.status, status) << day << "\n" << finished.err;
    EXPECT_EQ(finished.out, "") << day;
    EXPECT_NE(finished.err.find(part), std::string::npos) << day << "\n" << finished.err;
    EXPECT_EQ(finished.err.rfind("error: ", 0), 0U) << day << "\n" << finished.err;
    EXPECT_EQ(std::ranges::count(finished.err, '\n'), 1) << day << "\n" << finished.err;
    EXPECT_TRUE(files().empty()) << day;
  }
};

TEST_F(CudaBadDays, OnAGoodDayThereIsAPictureAndNothingIsLeftBehind) {
  const Finished finished = run("dif", tiny(), on(""));
  EXPECT_EQ(finished.status, 0) << finished.err;
  EXPECT_EQ(finished.err, "");
  EXPECT_EQ(files(), std::set<std::string>{"a.png"});
}

TEST_F(CudaBadDays, ADriverThatCannotBeUsed) {
  bad("init=100", 3, "sees no GPU");
  bad("init=803", 3, "are of different versions");
  bad("init=999", 3, "does not start: error 999");
  bad("driver=11080", 3, "is for CUDA 11.8, needed is 12.0 or newer");
  bad("driver=12040", 3, "NVRTC 13.0");
  bad("devices=0", 3, "no device 0");
  bad("", 3, "no device 7", {"--device", "7"});
}

TEST_F(CudaBadDays, AnArchitectureThatThereIsNoCodeFor) {
  bad("capability=75", 3, "Stand-in has compute capability 7.5, needed is 8.0");
  bad("compiler-too-old", 3, "makes no code for compute capability 9.0");
}

TEST_F(CudaBadDays, AKernelThatDoesNotCompileIsOurBug) {
  bad("no-compile", 70, "error: identifier \"oops\" is undefined");
}

/// Counted in launches: 120 are while weights are folded, 300 to 600 in the steps.
TEST_F(CudaBadDays, ADeviceThatIsLostInAnyPhase) {
  for (const char* day : {"lost=0", "lost=120", "lost=300", "lost=600"}) {
    bad(day, 3, "the GPU cannot go on (cuLaunchKernel says CUDA_ERROR_ECC_UNCORRECTABLE");
    bad(day, 3, "the GPU cannot go on (cuLaunchKernel says CUDA_ERROR_ECC_UNCORRECTABLE",
        {"--max-vram", "252MiB"});
  }
  const Finished finished = run("dif", tiny(), on("lost=0"));
  EXPECT_EQ(finished.err.find("--allow-host-fallback"), std::string::npos) << finished.err;
}

TEST_F(CudaBadDays, MemoryThatIsTooSmall) {
  bad("memory=4", 3, "Stand-in has 2097152 bytes of memory left");
  bad("", 3, "memory cap of 1048576 bytes", {"--memory-cap-mib", "1"});
}

TEST_F(CudaBadDays, MemoryThatAnotherProcessTakes) {
  for (const char* day : {"others=0", "others=1", "others=2", "others=16"})
    bad(day, 3, "Stand-in has 0 bytes of memory left");
  bad("", 3, "would leave less than 5000 MiB of Stand-in free", {"--min-free-mib", "5000"});
  bad("others=1", 3, "would leave less than 1 MiB of Stand-in free", {"--min-free-mib", "1"});
}

TEST_F(CudaBadDays, WhatIsLeftBehindWouldBeSeen) {
  const Finished finished = run("dif", tiny(), on("one-is-forgotten"));
  EXPECT_NE(finished.err.find("leaked: 0 allocations, 1 other objects"), std::string::npos) << finished.err;
}

TEST_F(CudaBadDays, NanInAStepIsAnAnswer) {
  bad("nan", 1, "denoise, step 0: the result holds NaN or infinity");
}

}  // namespace
}  // namespace dif::test
