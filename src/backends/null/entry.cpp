/// The null backend: verifies, plans and reports like any other, and writes zeros instead of running. Tests
/// of the planner and of tools need no more.
#define DIF_BACKEND_IMPLEMENTATION
#include "dif/backend_abi.h"
#include "runtime/abi_adapter.h"

namespace dif::null_backend {

static Result<std::unique_ptr<runtime::Device>> create_device(const runtime::DeviceOptions& options) {
  DIF_TRY(runtime::expect_only_device(options));
  return std::unique_ptr<runtime::Device>(new runtime::HostDevice(options.cap_bytes));
}

constexpr runtime::BackendDefinition kBackend = {
    .name = "null",
    .create_device = create_device,
    .kernels = [] { return std::span<const runtime::KernelEntry>(); },
    .probe = [] { return std::string(R"({"backend":"null","devices":[{"name":"plans only"}]})"); },
    .executes = false,
};

}  // namespace dif::null_backend

const dif_backend_api* dif_backend_entry(std::uint16_t host_abi_major, std::uint16_t) {
  return dif::runtime::backend_api<dif::null_backend::kBackend>(host_abi_major);
}
