#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backends/cuda/cuda_api.h"

namespace dif::cuda {

struct DeviceFacts {
  CUdevice handle = 0;
  std::string name;
  int capability = 0;  ///< 90 = 9.0
  std::uint64_t memory_bytes = 0, l2_bytes = 0;
  int multiprocessors = 0;
  int threads_of_multiprocessor = 0;
  int shared_bytes_of_block = 0;  ///< the most that a kernel may ask for
};

/// Every GPU that the driver shows, in its order.
Result<std::vector<DeviceFacts>> find_devices(const DriverApi& api);

/// The facts of device `index`. Errors: Unavailable (names how many there are).
Result<DeviceFacts> find_device(const DriverApi& api, int index);

/// The probe document: devices, the libraries that were found and where, and why the backend cannot be used
/// where it cannot.
std::string probe_json();

}  // namespace dif::cuda
