#include <algorithm>

#include "backends/cuda/cuda_device.h"
#include "backends/cuda/source.h"
#include "ops/common/checks.h"

namespace dif::cuda {

namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMostBlocks = 1024;

constexpr const char* kText = R"(
extern "C" __global__ void __launch_bounds__(256)
look(const @T@* x, Index count, unsigned long long* found) {
  bool finite = true;
  for (Index i = (Index)blockIdx.x * 256 + threadIdx.x; i < count; i += (Index)gridDim.x * 256)
    finite &= fabsf(decode(x[i])) < INFINITE;
  if (!finite) atomicMin(found, 0ull);
}
)";

/// One word that the kernel makes 0, and an event behind it.
class CudaFiniteProbe final : public runtime::FiniteProbe {
 public:
  CudaFiniteProbe(CudaDevice& device, ReportWord found, CUevent done)
      : device_(device), found_(std::move(found)), done_(done) {}
  ~CudaFiniteProbe() override { device_.driver().cuEventDestroy(done_); }

  Status submit(const runtime::TensorView& tensor) override {
    const std::int64_t count = tensor.type->numel();
    if (ops::is_float(tensor.type->dtype) && count != 0) {
      DIF_ASSIGN(
          const CudaKernel kernel,
          device_.kernel(prelude() + fill(kText, {{"T", type_name(tensor.type->dtype)}}), "look", kThreads));
      DIF_TRY(kernel.launch({std::min(ceil_div(count, kThreads), kMostBlocks)},
                            {tensor.buffer, count, found_.view()}));
    }
    return device_.driver().checked("cuEventRecord", device_.driver().cuEventRecord(done_, device_.stream()));
  }

  Result<bool> wait() override {
    DIF_TRY(device_.driver().checked("cuEventSynchronize", device_.driver().cuEventSynchronize(done_)));
    return found_.take() == ReportWord::kNothing;
  }

 private:
  CudaDevice& device_;
  ReportWord found_;
  CUevent done_;
};

}  // namespace

Result<std::unique_ptr<runtime::FiniteProbe>> CudaDevice::finite_probe() {
  DIF_TRY(begin_run());
  DIF_ASSIGN(ReportWord found, report_word());
  CUevent done = nullptr;
  DIF_TRY(driver_.checked("cuEventCreate", driver_.cuEventCreate(&done, CU_EVENT_DISABLE_TIMING)));
  return std::make_unique<CudaFiniteProbe>(*this, std::move(found), done);
}

}  // namespace dif::cuda
