/// The reference backend: one thread, plain kernels, no dependency. The judge of the conformance suite.
#define DIF_BACKEND_IMPLEMENTATION
#include "backends/reference/kernels.h"
#include "dif/backend_abi.h"
#include "runtime/abi_adapter.h"

namespace dif::reference {

static Result<std::unique_ptr<runtime::Device>> create_device(const runtime::DeviceOptions& options) {
  DIF_TRY(runtime::expect_only_device(options));
  return std::unique_ptr<runtime::Device>(new runtime::HostDevice(options.cap_bytes));
}

constexpr runtime::BackendDefinition kBackend = {
    .name = "reference",
    .create_device = create_device,
    .kernels = kernel_list,
    .probe = [] { return std::string(R"({"backend":"reference","devices":[{"name":"host, one thread"}]})"); },
};

}  // namespace dif::reference

const dif_backend_api* dif_backend_entry(std::uint16_t host_abi_major, std::uint16_t) {
  return dif::runtime::backend_api<dif::reference::kBackend>(host_abi_major);
}
