#pragma once

#include <cstdlib>

#include "backends/cuda/cuda_api.h"
#include "backends/cuda/device_list.h"

/// A driver that accepts everything and computes nothing, so that what the host does can be tested without a
/// GPU.
namespace dif::cuda::testing {

/// What the driver saw.
struct Seen {
  std::uint64_t allocated = 0, freed = 0, launches = 0, synchronizations = 0;
  std::size_t free_bytes = std::size_t{8} << 30;
};

inline Seen& seen() {
  static Seen instance;
  return instance;
}

template <class... Args>
CUresult accept(Args...) {
  return CUDA_SUCCESS;
}

/// Starts with nothing seen.
inline DriverApi accepting_driver() {
  seen() = {};
  DriverApi api;
#define DIF_CUDA_ACCEPT(name) api.name = accept;
  DIF_CUDA_DRIVER_FUNCTIONS(DIF_CUDA_ACCEPT)
#undef DIF_CUDA_ACCEPT
  api.version = 13000;
  api.cuMemAlloc = [](CUdeviceptr* address, std::size_t bytes) -> CUresult {
    static CUdeviceptr next = CUdeviceptr{1} << 40;
    *address = next;
    next += (bytes + 0x1fffff) & ~std::size_t{0x1fffff};
    seen().allocated += bytes;
    return CUDA_SUCCESS;
  };
  api.cuMemFree = [](CUdeviceptr) -> CUresult {
    ++seen().freed;
    return CUDA_SUCCESS;
  };
  api.cuMemHostAlloc = [](void** memory, std::size_t bytes, unsigned) -> CUresult {
    *memory = std::calloc(1, bytes);
    return CUDA_SUCCESS;
  };
  api.cuMemFreeHost = [](void* memory) -> CUresult {
    std::free(memory);
    return CUDA_SUCCESS;
  };
  api.cuMemGetInfo = [](std::size_t* free, std::size_t* total) -> CUresult {
    *free = seen().free_bytes;
    *total = std::size_t{8} << 30;
    return CUDA_SUCCESS;
  };
  api.cuDevicePrimaryCtxRetain = [](CUcontext* context, CUdevice) -> CUresult {
    static int anything = 0;
    *context = reinterpret_cast<CUcontext>(&anything);
    return CUDA_SUCCESS;
  };
  api.cuLaunchKernel = [](CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                          CUstream, void**, void**) -> CUresult {
    ++seen().launches;
    return CUDA_SUCCESS;
  };
  api.cuStreamSynchronize = [](CUstream) -> CUresult {
    ++seen().synchronizations;
    return CUDA_SUCCESS;
  };
  return api;
}

inline DeviceFacts facts(int capability = 90) {
  DeviceFacts result;
  result.name = "a GPU of the tests";
  result.capability = capability;
  result.memory_bytes = std::uint64_t{8} << 30;
  return result;
}

}  // namespace dif::cuda::testing
