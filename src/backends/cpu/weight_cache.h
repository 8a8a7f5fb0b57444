#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "backends/cpu/host_buffer.h"
#include "runtime/kernel.h"

namespace dif::cpu {

/// Two numbers that differ for different bytes, but for a chance of about 2^-64: a universal hash keyed by
/// numbers that are drawn when the process starts, so that no file can be made to collide. Spread over the
/// threads. Source: Black et al. 1999 (UMAC: NH, and a polynomial over it).
struct Fingerprint {
  std::uint64_t first = 0, second = 0;
  friend bool operator==(const Fingerprint&, const Fingerprint&) = default;
};
Fingerprint fingerprint(std::span<const std::byte> bytes);

/// Packed copies of weights that one context holds. The same weights in the same layout are packed once a
/// process: programs and contexts that need them share the copy while one of them lives.
class WeightCache {
 public:
  /// `budget_bytes`: what copies may take together, those that others hold too included.
  explicit WeightCache(std::uint64_t budget_bytes) : budget_(budget_bytes) {}

  struct Packed {
    bool kept = false;                         ///< false: it would exceed the budget
    std::uint64_t new_bytes = 0;               ///< zero when somebody had packed it already
    std::shared_ptr<const HostBuffer> buffer;  ///< null when it is not kept, or only planned
  };
  /// The packed form of `source`, `bytes` long, made by `pack` unless it is there. `layout` names everything
  /// beside the source that the packed bytes depend on. Throws std::bad_alloc and what `pack` throws.
  Packed get(std::span<const std::byte> source, std::string_view layout, std::uint64_t bytes,
             const std::function<void(std::byte*)>& pack);

  /// What get() would say about weights of their own, without making them. What was planned counts as held.
  Packed plan(std::uint64_t bytes);

 private:
  bool has_room(std::uint64_t bytes);

  const std::uint64_t budget_;
  std::uint64_t planned_ = 0;
  std::vector<std::weak_ptr<const HostBuffer>> held_;
};

/// Packs a constant operand of a request through the cache of its device (one without a bound for a request
/// without a device).
WeightCache::Packed pack_constant(const runtime::KernelRequest& request, std::size_t operand,
                                  std::string_view layout, std::uint64_t bytes,
                                  const std::function<void(std::byte*)>& pack);

}  // namespace dif::cpu
