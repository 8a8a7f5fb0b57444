#include "backends/cpu/weight_cache.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <mutex>
#include <random>
#include <string>

#include "backends/cpu/cpu_device.h"
#include "backends/cpu/parallel.h"

namespace dif::cpu {

namespace {

__extension__ using Wide = unsigned __int128;

constexpr std::uint64_t kPrime = (std::uint64_t{1} << 61) - 1;
constexpr std::size_t kStripeWords = 256;      ///< 32-bit words under one key
constexpr std::size_t kBlockBytes = 1U << 20;  ///< of one task

struct Keys {
  std::array<std::uint32_t, kStripeWords + 4> words;  ///< the second number's begin 4 words later
  std::uint64_t first, second;

  Keys() {
    std::random_device random;
    for (std::uint32_t& word : words) word = random();
    const auto draw = [&] { return ((std::uint64_t{random()} << 32) | random()) % kPrime; };
    first = draw();
    second = draw();
  }
};

std::uint64_t reduce(Wide x) {
  const std::uint64_t sum = static_cast<std::uint64_t>(x & kPrime) + static_cast<std::uint64_t>(x >> 61);
  const std::uint64_t folded = (sum & kPrime) + (sum >> 61);
  return folded >= kPrime ? folded - kPrime : folded;
}

std::uint64_t nh(const std::uint32_t* words, const std::uint32_t* keys) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < kStripeWords; i += 2)
    sum += std::uint64_t{words[i] + keys[i]} * std::uint64_t{words[i + 1] + keys[i + 1]};
  return sum;
}

Fingerprint append(const Keys& keys, Fingerprint hash, const std::uint32_t* stripe) {
  hash.first = reduce(Wide{hash.first} * keys.first + nh(stripe, keys.words.data()));
  hash.second = reduce(Wide{hash.second} * keys.second + nh(stripe, keys.words.data() + 4));
  return hash;
}

/// Of some bytes, zeros behind them: their number is part of what is hashed in the end.
Fingerprint hash_block(const Keys& keys, std::span<const std::byte> bytes) {
  Fingerprint hash;
  std::array<std::uint32_t, kStripeWords> stripe;
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(stripe)) {
    const std::size_t n = std::min(sizeof(stripe), bytes.size() - at);
    if (n < sizeof(stripe)) stripe.fill(0);
    std::memcpy(stripe.data(), bytes.data() + at, n);
    hash = append(keys, hash, stripe.data());
  }
  return hash;
}

/// Everything that packed bytes depend on.
struct Key {
  std::uint64_t first, second, source_bytes, bytes;
  std::string layout;
  friend auto operator<=>(const Key&, const Key&) = default;
};

struct Shared {
  std::mutex mutex;
  std::map<Key, std::weak_ptr<const HostBuffer>> buffers;
};

// Never destroyed: static objects elsewhere may hold kernels.
Shared& shared() {
  static auto* const everything = new Shared;
  return *everything;
}

}  // namespace

Fingerprint fingerprint(std::span<const std::byte> bytes) {
  static const Keys keys;
  const std::size_t n = (bytes.size() + kBlockBytes - 1) / kBlockBytes;
  std::vector<Fingerprint> blocks(n);
  for_blocks(static_cast<std::int64_t>(n), [&](std::int64_t block) {
    const std::size_t at = static_cast<std::size_t>(block) * kBlockBytes;
    blocks[static_cast<std::size_t>(block)] =
        hash_block(keys, bytes.subspan(at, std::min(kBlockBytes, bytes.size() - at)));
  });
  std::array<std::uint32_t, kStripeWords> stripe = {};
  const std::uint64_t size = bytes.size();
  std::memcpy(stripe.data(), &size, sizeof(size));
  Fingerprint hash = append(keys, {}, stripe.data());
  for (const Fingerprint& block : blocks) {
    std::memcpy(stripe.data(), &block, sizeof(block));
    hash = append(keys, hash, stripe.data());
  }
  return hash;
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
  const Fingerprint hash = fingerprint(source);
  Key key = {hash.first, hash.second, source.size(), bytes, std::string(layout)};
  Shared& all = shared();
  const std::lock_guard lock(all.mutex);
  std::erase_if(all.buffers, [](const auto& entry) { return entry.second.expired(); });
  auto& entry = all.buffers[std::move(key)];
  std::shared_ptr<const HostBuffer> buffer = entry.lock();
  const bool is_new = buffer == nullptr;
  if (is_new) {
    auto made = std::make_shared<HostBuffer>(bytes);
    pack(made->data());
    buffer = std::move(made);
    entry = buffer;
  }
  if (budget_ != UINT64_MAX) held_.push_back(buffer);
  return {true, is_new ? bytes : 0, std::move(buffer)};
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
