#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/cpu/fingerprint.h"
#include "backends/cpu/host_buffer.h"
#include "io/cache_store.h"
#include "runtime/kernel.h"

namespace dif::cpu {

/// Packed weights: memory of this process, or an entry of the cache folder that all processes share.
class PackedBytes {
 public:
  explicit PackedBytes(HostBuffer buffer) : buffer_(std::move(buffer)) {}
  explicit PackedBytes(io::CachedBytes mapped) : mapped_(std::move(mapped)) {}

  /// Only read: a mapped entry cannot be written. Not const, since that is what oneDNN wants to be given.
  std::byte* data() const { return mapped_ ? const_cast<std::byte*>(mapped_->bytes.data()) : buffer_.data(); }
  std::size_t bytes() const { return mapped_ ? mapped_->bytes.size() : buffer_.bytes(); }

 private:
  HostBuffer buffer_;
  std::optional<io::CachedBytes> mapped_;
};

/// Packed copies of weights that one context holds. The same weights in the same layout are packed once a
/// process: programs and contexts that need them share the copy while one of them lives. With a store they
/// are packed once a machine, and all processes share the pages.
class WeightCache {
 public:
  /// `budget_bytes`: what copies may take together, those that others hold too included.
  /// `store` keeps copies between processes, at most `kept_bytes` of one context so that they do not drive
  /// each other out; it is asked by one thread at a time, and one that is off keeps nothing.
  explicit WeightCache(std::uint64_t budget_bytes, io::CacheStore store = io::CacheStore({}),
                       std::uint64_t kept_bytes = io::CacheStore::kDefaultMaxBytes / 4 * 3);

  struct Packed {
    bool kept = false;                          ///< false: it would exceed the budget
    std::uint64_t new_bytes = 0;                ///< zero when this process had it already
    std::shared_ptr<const PackedBytes> buffer;  ///< null when it is not kept, or only planned
  };
  /// The packed form of `source`, `bytes` long, made by `pack` unless it is there. `layout` names everything
  /// beside the source that the packed bytes depend on. Throws std::bad_alloc and what `pack` throws.
  Packed get(std::span<const std::byte> source, std::string_view layout, std::uint64_t bytes,
             const std::function<void(std::byte*)>& pack);

  /// What get() would say about weights of their own, without making them. What was planned counts as held.
  Packed plan(std::uint64_t bytes);

 private:
  bool has_room(std::uint64_t bytes);
  PackedBytes from_store(const io::CacheKey& key, std::uint64_t bytes,
                         const std::function<void(std::byte*)>& pack);

  const std::uint64_t budget_;
  io::CacheStore store_;
  std::optional<FingerprintKeys> keys_;  ///< of the store; none: it is off
  std::uint64_t kept_left_;
  std::uint64_t planned_ = 0;
  std::vector<std::weak_ptr<const PackedBytes>> held_;
};

/// Packs a constant operand of a request through the cache of its device (one without a bound for a request
/// without a device).
WeightCache::Packed pack_constant(const runtime::KernelRequest& request, std::size_t operand,
                                  std::string_view layout, std::uint64_t bytes,
                                  const std::function<void(std::byte*)>& pack);

}  // namespace dif::cpu
