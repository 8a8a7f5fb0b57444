#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "dif/backend_abi.h"
#include "dif/status.h"
#include "plan/fusion.h"
#include "runtime/device.h"
#include "runtime/kernel.h"

namespace dif::runtime {

struct DeviceOptions {
  int device = 0;
  unsigned threads = 0;                                             ///< 0 = the CPUs that the process may use
  std::uint64_t cap_bytes = 0;                                      ///< 0 = no cap
  std::uint64_t weight_cache_bytes = UINT64_MAX;                    ///< bound on packed copies of weights
  std::string cache_folder;                                         ///< empty = keep nothing on disk
  bool keep_weight_cache = false;                                   ///< copies of weights in cache_folder too
  std::function<void(int level, const std::string& sentence)> log;  ///< may be empty
  std::uint64_t least_free_bytes = 0;  ///< of the device: no allocation goes below; 0 = no matter
};

/// What one of our backends consists of; the adapter makes a plug-in of it.
struct BackendDefinition {
  const char* name = "";
  Result<std::unique_ptr<Device>> (*create_device)(const DeviceOptions& options) = nullptr;
  std::span<const KernelEntry> (*kernels)() = nullptr;
  std::string (*probe)() = nullptr;                                ///< JSON document of devices and libraries
  std::uint32_t (*prefers)() = nullptr;                            ///< DIF_PREFERS_... here; null: none
  bool executes = true;                                            ///< false: plans, and writes zeros
  std::span<const GroupKernelEntry> (*group_kernels)() = nullptr;  ///< null: each operation runs by itself
  plan::FusionRules fusion = {};                                   ///< what the group kernels can execute
  plan::PitchRules pitches = {};  ///< what kernels take besides dense tensors
  /// For operations that `kernels` decline, used when the caller allows it (host_fallback.h); null: none.
  std::span<const KernelEntry> (*host_fallback)() = nullptr;
};

/// For create_device of a backend with one device. Errors: Unavailable (names the index; the host names the
/// backend).
Status expect_only_device(const DeviceOptions& options);

namespace internal {
/// `document` keeps what *json points to.
dif_code probe(const BackendDefinition& definition, std::string& document, const char** json,
               dif_error* error);
dif_code context_create(const BackendDefinition& definition, const dif_context_options* options,
                        dif_context** context, dif_error* error);
/// Everything of the interface that does not depend on the definition.
dif_backend_api common_api(const BackendDefinition& definition);
}  // namespace internal

/// The C interface of a backend: `return backend_api<kCpuBackend>(host_abi_major);` in dif_backend_entry.
template <const BackendDefinition& kDefinition>
const dif_backend_api* backend_api(std::uint16_t host_abi_major) {
  static const dif_backend_api api = [] {
    dif_backend_api table = internal::common_api(kDefinition);
    table.probe = [](const char** json, dif_error* error) {
      static std::string document;  // one for each backend: a process loads several
      return internal::probe(kDefinition, document, json, error);
    };
    table.context_create = [](const dif_context_options* options, dif_context** context, dif_error* error) {
      return internal::context_create(kDefinition, options, context, error);
    };
    return table;
  }();
  return host_abi_major == DIF_ABI_MAJOR ? &api : nullptr;
}

}  // namespace dif::runtime
