#include "backends/cpu/weight_cache.h"

#include <bit>
#include <map>
#include <mutex>
#include <string>

#include "backends/cpu/cpu_device.h"
#include "backends/cpu/onednn.h"

namespace dif::cpu {

namespace {

/// Everything that packed bytes depend on.
struct Key {
  std::uint64_t keys;  ///< under which the numbers stand: of a store, or 0
  std::uint64_t first, second, source_bytes, bytes;
  std::string layout;
  friend auto operator<=>(const Key&, const Key&) = default;
};

struct Shared {
  std::mutex mutex;
  std::map<Key, std::weak_ptr<const PackedBytes>> buffers;
};

// Never destroyed: static objects elsewhere may hold kernels.
Shared& shared() {
  static auto* const everything = new Shared;
  return *everything;
}

PackedBytes packed_here(std::uint64_t bytes, const std::function<void(std::byte*)>& pack) {
  HostBuffer buffer(bytes);
  pack(buffer.data());
  return PackedBytes(std::move(buffer));
}

/// Smaller copies are made faster than a file is opened.
constexpr std::uint64_t kLeastKeptBytes = 1U << 20;
constexpr std::uint32_t kStoreVersion = 1;

io::CacheKey store_key(const Key& key) {
  return io::CacheKey("packed-weights", kStoreVersion)
      .add("source", key.first)
      .add("source again", key.second)
      .add("source bytes", key.source_bytes)
      .add("bytes", key.bytes)
      .add("layout", key.layout)
      .add("oneDNN", onednn_identity());
}

}  // namespace

WeightCache::WeightCache(std::uint64_t budget_bytes, io::CacheStore store, std::uint64_t kept_bytes)
    : budget_(budget_bytes), store_(std::move(store)), kept_left_(kept_bytes) {
  if (const auto secret = store_.secret()) keys_.emplace(*secret);
}

bool WeightCache::has_room(std::uint64_t bytes) {
  if (budget_ == UINT64_MAX) return true;
  std::uint64_t held = planned_;
  std::erase_if(held_, [&](const auto& entry) {
    const auto buffer = entry.lock();
    if (buffer) held += buffer->bytes();
    return !buffer;
  });
  return held <= budget_ && bytes <= budget_ - held;
}

WeightCache::Packed WeightCache::get(std::span<const std::byte> source, std::string_view layout,
                                     std::uint64_t bytes, const std::function<void(std::byte*)>& pack) {
  if (!has_room(bytes)) return {};
  const Fingerprint hash = fingerprint(source, keys_ ? *keys_ : FingerprintKeys::of_this_process());
  const Key key = {keys_ ? keys_->first : 0, hash.first, hash.second, source.size(), bytes,
                   std::string(layout)};
  Shared& all = shared();
  const std::lock_guard lock(all.mutex);
  std::erase_if(all.buffers, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<const PackedBytes>& entry = all.buffers[key];
  std::shared_ptr<const PackedBytes> buffer = entry.lock();
  const bool is_new = buffer == nullptr;
  if (is_new) {
    const bool keeps = keys_ && bytes >= kLeastKeptBytes && bytes <= kept_left_;
    buffer = std::make_shared<const PackedBytes>(keeps ? from_store(store_key(key), bytes, pack)
                                                       : packed_here(bytes, pack));
    if (keeps) kept_left_ -= bytes;
    entry = buffer;
  }
  if (budget_ != UINT64_MAX) held_.push_back(buffer);
  return {true, is_new ? bytes : 0, std::move(buffer)};
}

PackedBytes WeightCache::from_store(const io::CacheKey& key, std::uint64_t bytes,
                                    const std::function<void(std::byte*)>& pack) {
  const auto checksum_of = [&](std::span<const std::byte> data) {
    const Fingerprint hash = fingerprint(data, *keys_);
    return std::bit_cast<io::CacheStore::Checksum>(hash);
  };
  if (auto found = store_.find_large(key, checksum_of); found && found->bytes.size() == bytes)
    return PackedBytes(std::move(*found));
  PackedBytes made = packed_here(bytes, pack);
  if (store_.store_large(key, {made.data(), bytes}, checksum_of))
    if (auto found = store_.find_large(key, checksum_of); found && found->bytes.size() == bytes)
      return PackedBytes(std::move(*found));  // the pages of the file alone stay
  return made;
}

WeightCache::Packed WeightCache::plan(std::uint64_t bytes) {
  if (!has_room(bytes)) return {};
  planned_ += bytes;
  return {true, bytes, nullptr};
}

WeightCache::Packed pack_constant(const runtime::KernelRequest& request, std::size_t operand,
                                  std::string_view layout, std::uint64_t bytes,
                                  const std::function<void(std::byte*)>& pack) {
  static auto* const unbounded = new WeightCache(UINT64_MAX);
  auto* const device = dynamic_cast<CpuDevice*>(request.device);
  WeightCache& cache = device == nullptr ? *unbounded : device->weights();
  if (request.plan_only) return cache.plan(bytes);
  const std::byte* const source = request.constants[operand].pointer();
  return cache.get({source, request.op->in(operand).bytes()}, layout, bytes, pack);
}

}  // namespace dif::cpu
