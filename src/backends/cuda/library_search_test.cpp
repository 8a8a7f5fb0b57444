#include "backends/cuda/library_search.h"

#include <gtest/gtest.h>

#include <fstream>

#include "backends/cuda/cuda_api.h"
#include "tests/support/paths.h"

namespace dif::cuda {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

const LibraryName kDnn = {"cuDNN", "DIF_CUDNN_PATH", {"libcudnn.so.9"}};

TEST(LibrarySearch, AsksTheLoaderThenCudaHomeThenWheelsThenTheUsualFolder) {
  EXPECT_EQ(library_candidates(kDnn, {"", "/opt/cuda", {"/env/nvidia/cudnn/lib"}}),
            (Names{"libcudnn.so.9", "/opt/cuda/lib64/libcudnn.so.9", "/env/nvidia/cudnn/lib/libcudnn.so.9",
                   "/usr/local/cuda/lib64/libcudnn.so.9"}));
}

TEST(LibrarySearch, TakesTheChosenFileOrFolderAlone) {
  const test::ScratchDir folder;
  EXPECT_EQ(library_candidates(kDnn, {"/some/libcudnn.so.9.1", "/opt/cuda", {}}),
            Names{"/some/libcudnn.so.9.1"});
  EXPECT_EQ(library_candidates(kDnn, {folder.path().string(), "/opt/cuda", {}}),
            Names{(folder / "libcudnn.so.9").string()});
}

TEST(LibrarySearch, PrefersNewerVersionsInEachPlace) {
  const LibraryName compiler = {"NVRTC", "DIF_NVRTC_PATH", {"libnvrtc.so.13", "libnvrtc.so.12"}};
  const Names found = library_candidates(compiler, {"", "/c", {}});
  EXPECT_EQ(found[0], "libnvrtc.so.13");
  EXPECT_EQ(found[1], "libnvrtc.so.12");
  EXPECT_EQ(found[2], "/c/lib64/libnvrtc.so.13");
}

TEST(LibrarySearch, FindsTheWheelsOfTheFirstPython3OnThePath) {
  const test::ScratchDir root;
  for (const char* environment : {"first", "second"}) {
    fs::create_directories(root / environment / "bin");
    const fs::path python = root / environment / "bin/python3";
    std::ofstream(python) << "#!/bin/sh\n";
    fs::permissions(python, fs::perms::owner_all);
    for (const char* wheel : {"cudnn", "cu13"})
      fs::create_directories(root / environment / "lib/python3.12/site-packages/nvidia" / wheel / "lib");
  }
  fs::create_directories(root / "first" / "lib/python3.12/site-packages/nvidia/empty");
  const std::string path = (root / "nothing").string() + "::" + (root / "first/bin").string() + ":" +
                           (root / "second/bin").string();
  const fs::path wheels = root / "first/lib/python3.12/site-packages/nvidia";
  EXPECT_EQ(wheel_folders(path), (std::vector<fs::path>{wheels / "cu13/lib", wheels / "cudnn/lib"}));
  EXPECT_TRUE(wheel_folders("").empty());
}

TEST(LibrarySearch, AMissingLibraryIsNamedWithTheVariableThatMayNameIt) {
  const auto library =
      open_library({"the library of this test", "DIF_TEST_LIBRARY_PATH", {"libdif_no_such.so.1"}});
  ASSERT_FALSE(library);
  EXPECT_EQ(library.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(library.error().message.find("the library of this test cannot be opened (libdif_no_such.so.1"),
            std::string::npos)
      << library.error().message;
  EXPECT_NE(library.error().message.find("name it in DIF_TEST_LIBRARY_PATH"), std::string::npos);
}

// --- what a user reads ------------------------------------------------------------------------------------

void expect_unavailable(const Status& status, const std::string& part) {
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kUnavailable) << status.error().message;
  EXPECT_NE(status.error().message.find(part), std::string::npos) << status.error().message;
}

TEST(CudaDriver, EachReasonWhyItCannotBeUsedHasItsSentence) {
  const std::string file = "/lib/libcuda.so.1";
  EXPECT_TRUE(check_driver(CUDA_SUCCESS, 13000, file));
  expect_unavailable(check_driver(CUDA_ERROR_NO_DEVICE, 13000, file), "sees no GPU");
  expect_unavailable(check_driver(CUDA_ERROR_STUB_LIBRARY, 13000, file), "the toolkit's stand-in");
  expect_unavailable(check_driver(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, 13000, file), "different versions");
  expect_unavailable(check_driver(CUDA_ERROR_NOT_INITIALIZED, 13000, file), "does not start: error 3");
  expect_unavailable(check_driver(CUDA_SUCCESS, 11080, file), "is for CUDA 11.8, needed is 12.0 or newer");
}

TEST(CudaDriver, AnOldGpuIsNamedWithItsCapability) {
  EXPECT_TRUE(check_capability("NVIDIA H200", 90));
  EXPECT_TRUE(check_capability("NVIDIA A100", 80));
  expect_unavailable(check_capability("Tesla T4", 75), "Tesla T4 has compute capability 7.5, needed is 8.0");
}

}  // namespace
}  // namespace dif::cuda
