#include <gtest/gtest.h>

#include "backends/cuda/cuda_device.h"
#include "backends/cuda/testing_driver.h"

/// What the device does on the host, on a driver that computes nothing.
namespace dif::cuda {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

/// A device of the accepting driver.
struct OnHost {
  DriverApi driver = testing::accepting_driver();
  CompilerApi compiler;
  std::unique_ptr<CudaDevice> device;

  explicit OnHost(std::uint64_t cap_bytes = 0, std::uint64_t context_bytes = 0) {
    testing::seen().free_bytes -= context_bytes;
    runtime::DeviceOptions options;
    options.cap_bytes = cap_bytes;
    auto made = CudaDevice::create(driver, compiler, testing::facts(), options);
    if (made) device = std::move(*made);
  }
};

TEST(CudaDevice, SmallAllocationsShareAPage) {
  OnHost host;
  const std::uint64_t before = testing::seen().allocated;
  std::vector<runtime::DeviceBuffer> buffers;
  for (int i = 0; i < 100; ++i) buffers.push_back(*runtime::DeviceBuffer::create(*host.device, 1000));
  EXPECT_EQ(testing::seen().allocated - before, 2 * kMiB);
  EXPECT_EQ(buffers[1].view().pointer() - buffers[0].view().pointer(), 1024) << "256-byte alignment";
  buffers.clear();
  buffers.push_back(*runtime::DeviceBuffer::create(*host.device, 1000));
  EXPECT_EQ(testing::seen().allocated - before, 2 * kMiB) << "an empty page is used again";
}

TEST(CudaDevice, TheCapCountsContextPagesAndLargeAllocations) {
  OnHost host(20 * kMiB, 10 * kMiB);
  ASSERT_NE(host.device, nullptr);
  EXPECT_EQ(host.device->held_bytes(), 10 * kMiB) << "the context";
  auto small = runtime::DeviceBuffer::create(*host.device, 1);
  ASSERT_TRUE(small);
  EXPECT_EQ(host.device->held_bytes(), 12 * kMiB);
  auto large = runtime::DeviceBuffer::create(*host.device, 5 * kMiB);
  ASSERT_TRUE(large);
  EXPECT_EQ(host.device->held_bytes(), 18 * kMiB) << "in pages of 2 MiB";
  const auto more = runtime::DeviceBuffer::create(*host.device, 3 * kMiB);
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().code, ErrorCode::kOutOfMemory);
  EXPECT_NE(more.error().message.find("memory cap of 20971520 bytes (18874368 are held, the CUDA context"),
            std::string::npos)
      << more.error().message;
  *large = runtime::DeviceBuffer();
  EXPECT_EQ(host.device->held_bytes(), 12 * kMiB);
}

TEST(CudaDevice, ACapBelowTheContextRefusesTheDevice) {
  EXPECT_EQ(OnHost(5 * kMiB, 10 * kMiB).device, nullptr);
}

TEST(CudaDevice, UploadsDoNotWaitForTheGpu) {
  OnHost host;
  auto buffer = runtime::DeviceBuffer::create(*host.device, 40 * kMiB);
  ASSERT_TRUE(buffer);
  const std::vector<std::byte> bytes(40 * kMiB);
  ASSERT_TRUE(host.device->upload(buffer->view(), bytes.data(), bytes.size()));
  EXPECT_EQ(testing::seen().synchronizations, 0U);
}

TEST(CudaDevice, LargePinnedMemoryIsOurPagesThatTheDriverRegisters) {
  OnHost host;
  static std::uint64_t registered = 0;
  static CUresult answer = CUDA_SUCCESS;
  host.driver.cuMemHostRegister = [](void* memory, std::size_t bytes, unsigned) -> CUresult {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % (2 * kMiB), 0U);
    registered += answer == CUDA_SUCCESS ? bytes : 0;
    return answer;
  };
  host.driver.cuMemHostUnregister = [](void*) -> CUresult {
    registered = 0;
    return CUDA_SUCCESS;
  };
  {
    auto pinned = runtime::PinnedBuffer::create(*host.device, 5 * kMiB);
    ASSERT_TRUE(pinned);
    EXPECT_EQ(registered, 6 * kMiB);
    EXPECT_EQ(pinned->data()[5 * kMiB - 1], std::byte{0});
  }
  EXPECT_EQ(registered, 0U);
  answer = CUDA_ERROR_NOT_SUPPORTED;
  EXPECT_TRUE(runtime::PinnedBuffer::create(*host.device, 5 * kMiB)) << "then the driver's own";
  answer = CUDA_SUCCESS;
  EXPECT_TRUE(runtime::PinnedBuffer::create(*host.device, 4096));
  EXPECT_EQ(registered, 0U) << "small ones are the driver's";
}

TEST(CudaDevice, CountsCopiesOfBothLanes) {
  OnHost host;
  auto buffer = runtime::DeviceBuffer::create(*host.device, 20 * kMiB);
  ASSERT_TRUE(buffer);
  std::vector<std::byte> bytes(20 * kMiB);
  const auto copies = [&] { return host.device->counters().copies; };
  ASSERT_TRUE(host.device->upload(buffer->view(), bytes.data(), bytes.size()));
  EXPECT_EQ(copies(), 3U) << "pieces of 8 MiB";
  for (const runtime::Lane lane : {runtime::Lane::kRun, runtime::Lane::kCopy})
    ASSERT_TRUE(host.device->upload_later(lane, buffer->view(), bytes.data(), bytes.size()));
  ASSERT_TRUE(host.device->download(bytes.data(), buffer->view(), bytes.size()));
  EXPECT_EQ(copies(), 8U) << "pieces of 8 MiB, both ways";
}

TEST(CudaDevice, WhatOthersTakeCountsAgainstTheLeastThatStaysFree) {
  DriverApi driver = testing::accepting_driver();
  const CompilerApi compiler;
  runtime::DeviceOptions options;
  options.least_free_bytes = 1024 * kMiB;
  auto device = CudaDevice::create(driver, compiler, testing::facts(), options);
  ASSERT_TRUE(device) << device.error().message;
  EXPECT_TRUE(runtime::DeviceBuffer::create(**device, 16 * kMiB));
  testing::seen().free_bytes = 1030 * kMiB;  // another process came
  const auto refused = runtime::DeviceBuffer::create(**device, 16 * kMiB);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kOutOfMemory);
  EXPECT_NE(refused.error().message.find("would leave less than 1024 MiB"), std::string::npos)
      << refused.error().message;
}

TEST(CudaDevice, ACapCountsWhatLibrariesTookWithoutAsking) {
  OnHost host(100 * kMiB, 10 * kMiB);
  ASSERT_NE(host.device, nullptr);
  testing::seen().free_bytes -= 80 * kMiB;
  EXPECT_EQ(host.device->held_bytes(), 90 * kMiB);
  EXPECT_FALSE(runtime::DeviceBuffer::create(*host.device, 11 * kMiB));
  EXPECT_TRUE(runtime::DeviceBuffer::create(*host.device, 5 * kMiB));
}

TEST(CudaDevice, AReportWordTellsOnceAndIsUsedAgain) {
  OnHost host;
  void* first = nullptr;
  {
    auto word = host.device->report_word();
    ASSERT_TRUE(word);
    first = word->view().base;
    EXPECT_EQ(word->take(), ReportWord::kNothing);
    *static_cast<std::uint64_t*>(first) = 7;
    EXPECT_EQ(word->take(), 7U);
    EXPECT_EQ(word->take(), ReportWord::kNothing);
  }
  EXPECT_EQ(host.device->report_word()->view().base, first);
}

}  // namespace
}  // namespace dif::cuda
