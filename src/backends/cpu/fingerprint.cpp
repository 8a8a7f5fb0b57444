#include "backends/cpu/fingerprint.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "backends/cpu/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/fingerprint.cpp"
#include "hwy/foreach_target.h"

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace dif::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// NH of one stripe under both sets of keys: sums modulo 2^64, the same in whatever order.
static Fingerprint nh_of_stripe(const std::uint32_t* stripe, const std::uint32_t* keys) {
  const hn::ScalableTag<std::uint32_t> d32;
  const hn::Repartition<std::uint64_t, decltype(d32)> d64;
  auto first = hn::Zero(d64), second = first;
  const auto pairs = [&](auto words) {
    return hn::MulEven(words, hn::BitCast(d32, hn::ShiftRight<32>(hn::BitCast(d64, words))));
  };
  for (std::size_t i = 0; i < FingerprintKeys::kStripeWords; i += hn::MaxLanes(d32)) {
    const auto words = hn::LoadU(d32, stripe + i);
    first = hn::Add(first, pairs(hn::Add(words, hn::LoadU(d32, keys + i))));
    second = hn::Add(second, pairs(hn::Add(words, hn::LoadU(d32, keys + i + 4))));
  }
  return {hn::GetLane(hn::SumOfLanes(d64, first)), hn::GetLane(hn::SumOfLanes(d64, second))};
}

}  // namespace dif::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dif::cpu {

HWY_EXPORT(nh_of_stripe);

namespace {

__extension__ using Wide = unsigned __int128;

constexpr std::uint64_t kPrime = (std::uint64_t{1} << 61) - 1;
constexpr std::size_t kStripeWords = FingerprintKeys::kStripeWords;
constexpr std::size_t kBlockBytes = 1U << 20;  ///< of one task

std::uint64_t reduce(Wide x) {
  const std::uint64_t sum = static_cast<std::uint64_t>(x & kPrime) + static_cast<std::uint64_t>(x >> 61);
  const std::uint64_t folded = (sum & kPrime) + (sum >> 61);
  return folded >= kPrime ? folded - kPrime : folded;
}

Fingerprint append(const FingerprintKeys& keys, Fingerprint hash, const std::uint32_t* stripe) {
  const Fingerprint nh = HWY_DYNAMIC_DISPATCH(nh_of_stripe)(stripe, keys.words.data());
  return {reduce(Wide{hash.first} * keys.first + nh.first),
          reduce(Wide{hash.second} * keys.second + nh.second)};
}

/// Of some bytes, zeros behind them: their number is part of what is hashed in the end.
Fingerprint hash_block(const FingerprintKeys& keys, std::span<const std::byte> bytes) {
  Fingerprint hash;
  alignas(64) std::array<std::uint32_t, kStripeWords> stripe;
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(stripe)) {
    const std::size_t n = std::min(sizeof(stripe), bytes.size() - at);
    if (n < sizeof(stripe)) stripe.fill(0);
    std::memcpy(stripe.data(), bytes.data() + at, n);
    hash = append(keys, hash, stripe.data());
  }
  return hash;
}

}  // namespace

FingerprintKeys::FingerprintKeys(const io::Digest& secret) {
  // SHA-256 over the secret and a counter, one digest after the other.
  constexpr std::size_t kNumbers = 4;  // words of `first` and `second`
  std::array<std::uint32_t, kStripeWords + 4 + kNumbers> drawn;
  constexpr std::size_t kStep = sizeof(io::Digest) / sizeof(std::uint32_t);
  static_assert(drawn.size() % kStep == 0);
  for (std::uint32_t i = 0; i < drawn.size() / kStep; ++i) {
    io::Sha256 hash;
    hash.update(std::as_bytes(std::span(secret)));
    hash.update(std::as_bytes(std::span(&i, 1)));
    const io::Digest digest = hash.finish();
    std::memcpy(drawn.data() + i * kStep, digest.data(), sizeof(digest));
  }
  std::copy_n(drawn.begin(), words.size(), words.begin());
  const auto number = [&](std::size_t at) {
    return ((std::uint64_t{drawn[words.size() + at]} << 32) | drawn[words.size() + at + 1]) % kPrime;
  };
  first = number(0);
  second = number(2);
}

const FingerprintKeys& FingerprintKeys::of_this_process() {
  static const FingerprintKeys keys = [] {
    std::random_device random;
    io::Digest secret;
    for (std::size_t i = 0; i < secret.size(); i += sizeof(std::uint32_t)) {
      const std::uint32_t word = random();
      std::memcpy(secret.data() + i, &word, sizeof(word));
    }
    return FingerprintKeys(secret);
  }();
  return keys;
}

Fingerprint fingerprint(std::span<const std::byte> bytes, const FingerprintKeys& keys) {
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

}  // namespace dif::cpu
#endif
