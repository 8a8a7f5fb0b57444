#pragma once

#include "backends/cpu/weight_cache.h"
#include "runtime/device.h"

namespace dif::cpu {

/// Host memory, the number of OpenMP threads of the runs on it, and packed weights.
class CpuDevice final : public runtime::HostDevice {
 public:
  CpuDevice(std::uint64_t cap_bytes, unsigned threads, std::uint64_t weight_cache_bytes,
            io::CacheStore store = io::CacheStore({}))
      : HostDevice(cap_bytes), threads_(threads), weights_(weight_cache_bytes, std::move(store)) {}
  Status begin_run() override;
  WeightCache& weights() { return weights_; }

 private:
  unsigned threads_;
  WeightCache weights_;
};

}  // namespace dif::cpu
