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
