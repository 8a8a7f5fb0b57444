/// The CUDA backend: generated kernels, cuBLASLt and cuDNN on NVIDIA GPUs, all found at run time.
#define DIF_BACKEND_IMPLEMENTATION
#include "backends/cuda/cuda_device.h"
#include "backends/cuda/kernel_list.h"
#include "backends/cuda/kernels.h"
#include "backends/cuda/row_steps.h"
#include "backends/reference/kernels.h"
#include "dif/backend_abi.h"
#include "runtime/abi_adapter.h"
#include "runtime/host_fallback.h"

namespace dif::cuda {

constexpr runtime::BackendDefinition kBackend = {
    .name = "cuda",
    .create_device = CudaDevice::create,
    .kernels = kernel_list,
    .probe = probe_json,
    .prefers = [] { return std::uint32_t{DIF_PREFERS_CHANNELS_LAST | DIF_PREFERS_JOINED_LINEARS}; },
    .group_kernels = group_kernel_list,
    .fusion = {.accepts = accept_in_group, .leads = accept_as_leader, .wholes = find_linear_swiglus},
    .pitches = {.reads = reads_pitched, .writes = writes_pitched},
    .host_fallback = runtime::host_fallback<reference::kernel_list>,
};

}  // namespace dif::cuda

const dif_backend_api* dif_backend_entry(std::uint16_t host_abi_major, std::uint16_t) {
  return dif::runtime::backend_api<dif::cuda::kBackend>(host_abi_major);
}
