#pragma once

#include <cstddef>
#include <cstdint>

namespace dif::cpu {

/// Bytes that a kernel moves beyond which no cache holds what it writes until that is read.
inline constexpr std::int64_t kPastCachesBytes = 32 << 20;

/// What a kernel does for memory beside its work.
struct Traffic {
  bool past_caches = false;  ///< writes its result past the caches, if it can: finish_stream() comes after
  /// Fetches these bytes into the second cache, spread over its work, since they are read soon.
  const std::byte* fetch = nullptr;
  std::size_t fetch_bytes = 0;

  /// The share of step `index` of `count` equal ones.
  Traffic part(std::int64_t index, std::int64_t count) const {
    if (fetch_bytes == 0) return *this;
    const auto first = fetch_bytes * static_cast<std::size_t>(index) / static_cast<std::size_t>(count);
    const auto end = fetch_bytes * static_cast<std::size_t>(index + 1) / static_cast<std::size_t>(count);
    return {past_caches, fetch + first, end - first};
  }
};

}  // namespace dif::cpu
