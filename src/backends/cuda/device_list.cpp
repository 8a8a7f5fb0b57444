#include "backends/cuda/device_list.h"

#include <nlohmann/json.hpp>

namespace dif::cuda {

namespace {

using nlohmann::ordered_json;

Result<DeviceFacts> read_facts(const DriverApi& api, int index) {
  DeviceFacts facts;
  DIF_TRY(api.checked("cuDeviceGet", api.cuDeviceGet(&facts.handle, index)));
  char name[256] = {};
  DIF_TRY(api.checked("cuDeviceGetName", api.cuDeviceGetName(name, sizeof(name) - 1, facts.handle)));
  facts.name = name;
  std::size_t bytes = 0;
  DIF_TRY(api.checked("cuDeviceTotalMem", api.cuDeviceTotalMem(&bytes, facts.handle)));
  facts.memory_bytes = bytes;
  const auto number = [&](CUdevice_attribute attribute) {
    int value = 0;
    return api.cuDeviceGetAttribute(&value, attribute, facts.handle) == CUDA_SUCCESS ? value : 0;
  };
  facts.capability = 10 * number(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
                     number(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  facts.multiprocessors = number(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  facts.threads_of_multiprocessor = number(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
  facts.l2_bytes = static_cast<std::uint64_t>(number(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE));
  facts.shared_bytes_of_block = number(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  return facts;
}

Result<int> count_devices(const DriverApi& api) {
  int count = 0;
  DIF_TRY(api.checked("cuDeviceGetCount", api.cuDeviceGetCount(&count)));
  return count;
}

/// One library of the probe document: where it was found, or why not.
template <class Api, class Version>
void add_library(ordered_json& libraries, const char* name, const Result<const Api*>& api, Version version) {
  if (api)
    libraries.push_back({{"name", name}, {"version", version(**api)}, {"file", (*api)->file}});
  else
    libraries.push_back({{"missing", name}, {"reason", api.error().message}});
}

}  // namespace

Result<std::vector<DeviceFacts>> find_devices(const DriverApi& api) {
  DIF_ASSIGN(const int count, count_devices(api));
  std::vector<DeviceFacts> devices;
  for (int index = 0; index < count; ++index) {
    DIF_ASSIGN(DeviceFacts facts, read_facts(api, index));
    devices.push_back(std::move(facts));
  }
  return devices;
}

Result<DeviceFacts> find_device(const DriverApi& api, int index) {
  DIF_ASSIGN(const int count, count_devices(api));
  if (index >= count)
    return fail(ErrorCode::kUnavailable, "there is no device {}: the driver shows {}", index, count);
  return read_facts(api, index);
}

std::string probe_json() {
  ordered_json document = {
      {"backend", "cuda"}, {"devices", ordered_json::array()}, {"libraries", ordered_json::array()}};
  ordered_json& libraries = document["libraries"];
  const auto driver = DriverApi::load();
  add_library(libraries, "driver", driver, [](const DriverApi& api) { return version_text(api.version); });
  if (!driver) {  // without it the others matter little, and opening them takes time
    document["unavailable"] = driver.error().message;
    return document.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  }
  const auto compiler = CompilerApi::load();
  add_library(libraries, "NVRTC", compiler,
              [](const CompilerApi& api) { return fmt::format("{}.{}", api.major, api.minor); });
  add_library(libraries, "cuBLASLt", MatmulApi::load(), [](const MatmulApi& api) { return api.version; });
  add_library(libraries, "cuDNN", DnnLibrary::load(), [](const DnnLibrary& dnn) { return dnn.version; });
  const auto devices = find_devices(**driver);
  if (!devices) {
    document["unavailable"] = devices.error().message;
  } else {
    for (const DeviceFacts& facts : *devices)
      document["devices"].push_back(
          {{"name", facts.name},
           {"driver", version_text((*driver)->version)},
           {"compute_capability", fmt::format("{}.{}", facts.capability / 10, facts.capability % 10)},
           {"memory_bytes", facts.memory_bytes},
           {"multiprocessors", facts.multiprocessors},
           {"threads_of_multiprocessor", facts.threads_of_multiprocessor},
           {"l2_bytes", facts.l2_bytes},
           {"shared_bytes_of_block", facts.shared_bytes_of_block}});
    if (!compiler)
      document["unavailable"] = compiler.error().message;
    else if (devices->empty())
      document["unavailable"] = "NVIDIA's driver shows no GPU";
    else if (const Status able = check_capability(devices->front().name, devices->front().capability); !able)
      document["unavailable"] = able.error().message;
  }
  return document.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace dif::cuda
