/// The CPU backend: oneDNN for matrix products and convolutions, vectorised kernels for the rest.
#define DIF_BACKEND_IMPLEMENTATION
#include "backends/cpu/cpu_device.h"
#include "backends/cpu/cpu_features.h"
#include "backends/cpu/kernel_list.h"
#include "backends/cpu/row_group.h"
#include "dif/backend_abi.h"
#include "runtime/abi_adapter.h"

namespace dif::cpu {

static Result<std::unique_ptr<runtime::Device>> create_device(const runtime::DeviceOptions& options) {
  DIF_TRY(runtime::expect_only_device(options));
  const unsigned threads = options.threads != 0 ? options.threads : usable_cpus();
  io::CacheStore store(options.keep_weight_cache ? options.cache_folder : "",
                       [log = options.log](std::string_view sentence) {
                         if (log) log(DIF_LOG_WARNING, std::string(sentence));
                       });
  return std::unique_ptr<runtime::Device>(
      new CpuDevice(options.cap_bytes, threads, options.weight_cache_bytes, std::move(store)));
}

/// With less than AVX-512 oneDNN's convolutions of many channels are slower with channels last than without,
/// and for some of few channels it has none.
static std::uint32_t preferences() {
  return convolves_channels_last() ? DIF_PREFERS_CHANNELS_LAST | DIF_PREFERS_FOLDED_UPSAMPLING : 0U;
}

constexpr runtime::BackendDefinition kBackend = {
    .name = "cpu",
    .create_device = create_device,
    .kernels = kernel_list,
    .probe = probe_json,
    .prefers = preferences,
    .group_kernels = group_kernel_list,
    .fusion = {.accepts = accepts_in_group},
};

}  // namespace dif::cpu

const dif_backend_api* dif_backend_entry(std::uint16_t host_abi_major, std::uint16_t) {
  return dif::runtime::backend_api<dif::cpu::kBackend>(host_abi_major);
}
