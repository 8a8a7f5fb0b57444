#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backends/opencl/opencl_api.h"

namespace dif::opencl {

/// A device and what it says of itself.
struct DeviceFacts {
  cl_platform_id platform = nullptr;
  cl_device_id id = nullptr;
  std::string platform_name, platform_version;
  std::string name, vendor, version, driver, kind;  ///< kind: cpu, gpu, accelerator or other
  std::uint64_t memory_bytes = 0, largest_buffer_bytes = 0, local_memory_bytes = 0;
  std::uint64_t compute_units = 0, largest_work_group = 0;
  bool f64 = false;                 ///< has double arithmetic
  bool rounds_divide_sqrt = false;  ///< divides and takes roots correctly rounded, when asked
  bool compiles = false;            ///< has an online compiler, and is little-endian
};

/// Devices of all platforms, in the loader's order: --device counts them from 0. Errors: Unavailable (none).
Result<std::vector<DeviceFacts>> find_devices(const OpenClApi& api);

/// JSON document for difprobe and doctor: loader and devices, or why there are none.
std::string probe_json();

}  // namespace dif::opencl
