#pragma once

#include <cstdint>
#include <utility>

#include "backends/cuda/cuda_device.h"

/// What libraries' kernels are measured on.
namespace dif::cuda {

/// Device memory outside the plan, gone when the measurement is over.
class Scratch {
 public:
  static Result<Scratch> create(CudaDevice& device, std::uint64_t bytes) {
    Scratch scratch(device);
    DIF_ASSIGN(scratch.view_, device.allocate(bytes));
    return scratch;
  }
  Scratch(Scratch&& other) noexcept : device_(other.device_), view_(std::exchange(other.view_, {})) {}
  ~Scratch() {
    if (view_) device_->release(view_);
  }
  runtime::BufferView view() const { return view_; }

 private:
  explicit Scratch(CudaDevice& device) : device_(&device) {}
  CudaDevice* device_;
  runtime::BufferView view_;
};

/// Numbers between -1 and 1 that the seed decides: zeros would take less power, and so less time.
Status fill_randomly(CudaDevice& device, runtime::BufferView to, DType dtype, std::int64_t count,
                     std::int32_t seed);

}  // namespace dif::cuda
