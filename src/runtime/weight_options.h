#pragma once

#include <cstdint>

#include "plan/residency.h"

namespace dif::runtime {

inline constexpr std::uint32_t kMostStagingBuffers = 4096;
inline constexpr std::uint32_t kMostReadingThreads = 1024;

/// How weights reach a device with a copy lane. Nothing here changes a bit of a result.
struct WeightOptions {
  /// Of device memory, for a program and what the context holds; 0 = the device's cap. Without either every
  /// weight stays on the device.
  std::uint64_t budget_bytes = 0;
  std::uint64_t least_free_bytes = 0;  ///< of device memory: no allocation leaves less; 0 = no matter
  plan::ResidentOrder order = plan::ResidentOrder::kSpread;
  std::uint32_t prefetch_distance = 1;  ///< stages that are fetched ahead of the one in use
  bool host_pinned = false;             ///< streamed weights wait in pinned host memory, else in their files
  bool serial = false;                  ///< nothing is fetched before its step needs it
  bool lazy = false;                    ///< resident weights are fetched before the first run, not in prepare
  bool release_pages = false;           ///< what was read leaves the page cache
  unsigned threads = 0;                 ///< that read, 0 = as UploaderOptions
  std::uint32_t n_buffers = 32;         ///< pinned, of kStagingBufferBytes each

  static constexpr std::uint64_t kStagingBufferBytes = 4 << 20;
};

}  // namespace dif::runtime
