/// The OpenCL backend: generated kernels of OpenCL 1.2 for whatever device the loader of the system finds.
#define DIF_BACKEND_IMPLEMENTATION
#include "backends/opencl/kernel_list.h"
#include "backends/opencl/opencl_device.h"
#include "backends/opencl/pointwise.h"
#include "backends/reference/kernels.h"
#include "dif/backend_abi.h"
#include "runtime/abi_adapter.h"
#include "runtime/host_fallback.h"

namespace dif::opencl {

constexpr runtime::BackendDefinition kBackend = {
    .name = "opencl",
    .create_device = OpenClDevice::create,
    .kernels = kernel_list,
    .probe = probe_json,
    .group_kernels = group_kernel_list,
    // A device takes at least 1024 bytes of parameters: enough for the operands of twelve operations.
    .fusion = {.accepts = accepts_in_group, .max_operations = 12},
    .host_fallback = runtime::host_fallback<reference::kernel_list>,
};

}  // namespace dif::opencl

const dif_backend_api* dif_backend_entry(std::uint16_t host_abi_major, std::uint16_t) {
  return dif::runtime::backend_api<dif::opencl::kBackend>(host_abi_major);
}
