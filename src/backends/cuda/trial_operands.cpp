#include "backends/cuda/trial_operands.h"

#include <algorithm>

#include "backends/cuda/source.h"

namespace dif::cuda {

namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMostBlocks = 4096;

constexpr const char* kText = R"(
extern "C" __global__ void __launch_bounds__(256)
scatter(@T@* x, Index count, unsigned seed) {
  for (Index i = (Index)blockIdx.x * 256 + threadIdx.x; i < count; i += (Index)gridDim.x * 256) {
    unsigned h = (unsigned)i * 2654435761u + seed;
    h = (h ^ h >> 16) * 0x85ebca6bu;
    h = (h ^ h >> 13) * 0xc2b2ae35u;
    x[i] = encode<@T@>((float)(int)(h ^ h >> 16) * 4.656612873e-10f);
  }
}
)";

}  // namespace

Status fill_randomly(CudaDevice& device, runtime::BufferView to, DType dtype, std::int64_t count,
                     std::int32_t seed) {
  DIF_ASSIGN(const CudaKernel scatter,
             device.kernel(prelude() + fill(kText, {{"T", type_name(dtype)}}), "scatter", kThreads));
  return scatter.launch({std::min(ceil_div(count, kThreads), kMostBlocks)}, {to, count, seed});
}

}  // namespace dif::cuda
