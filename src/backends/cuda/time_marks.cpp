#include <utility>

#include "backends/cuda/cuda_device.h"
#include "backends/cuda/source.h"

namespace dif::cuda {

namespace {

/// Before the first mark the device waits for so long: the host, which takes microseconds to submit a kernel
/// and its mark, is then ahead of it, and no mark has to wait for the host.
constexpr std::int32_t kHeadStartNanoseconds = 1'000'000;

constexpr const char* kText = R"(
extern "C" __global__ void __launch_bounds__(32)
wait_a_while(int nanoseconds) {
  unsigned long long begin, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
  do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now)); while (now - begin < (unsigned long long)nanoseconds);
}
)";

}  // namespace

Result<bool> CudaDevice::mark_time() {
  if (n_marks_ == 0) {
    DIF_ASSIGN(const CudaKernel wait, kernel(prelude() + kText, "wait_a_while", 32));
    DIF_TRY(wait.launch({1}, {kHeadStartNanoseconds}));
  }
  if (n_marks_ == marks_.size()) {
    CUevent event = nullptr;
    DIF_TRY(driver_.checked("cuEventCreate", driver_.cuEventCreate(&event, CU_EVENT_DEFAULT)));
    marks_.push_back(event);
  }
  DIF_TRY(driver_.checked("cuEventRecord", driver_.cuEventRecord(marks_[n_marks_++], stream_)));
  return true;
}

Result<std::vector<std::uint64_t>> CudaDevice::times_between_marks() {
  std::vector<std::uint64_t> times;
  const std::size_t n_marks = std::exchange(n_marks_, 0);
  for (std::size_t i = 1; i < n_marks; ++i) {
    float milliseconds = 0;
    DIF_TRY(driver_.checked("cuEventElapsedTime",
                            driver_.cuEventElapsedTime(&milliseconds, marks_[i - 1], marks_[i])));
    times.push_back(static_cast<std::uint64_t>(1e6 * static_cast<double>(milliseconds)));
  }
  return times;
}

}  // namespace dif::cuda
