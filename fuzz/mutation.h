#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

/// libFuzzer's own mutations of bytes; missing in a replay, which has no libFuzzer.
extern "C" __attribute__((weak)) std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size,
                                                              std::size_t max_size);

namespace dif::fuzz {

/// What a mutator draws from: everything follows from libFuzzer's seed. (SplitMix64.)
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t bits() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15U);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }
  /// 0 .. n-1. Pre: n > 0.
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(bits() % n); }
  bool one_in(std::size_t n) { return below(n) == 0; }
  /// One element of a container that is not empty.
  template <class Container>
  auto& of(Container& container) {
    return container[below(std::size(container))];
  }

 private:
  std::uint64_t state_;
};

/// Numbers at which sizes, offsets and products of them go wrong.
inline std::int64_t edge_number(Random& random) {
  static constexpr std::int64_t kEdges[] = {-1,
                                            0,
                                            1,
                                            2,
                                            7,
                                            8,
                                            255,
                                            std::int64_t{1} << 20,
                                            std::int64_t{1} << 31,
                                            (std::int64_t{1} << 32) + 1,
                                            std::int64_t{1} << 40,
                                            std::int64_t{1} << 61,
                                            INT64_MAX,
                                            INT64_MIN};
  return random.of(kEdges);
}

/// Changes bytes without knowing what they mean; returns the new size.
inline std::size_t mutate_bytes(std::uint8_t* data, std::size_t size, std::size_t max_size, Random& random) {
  if (LLVMFuzzerMutate != nullptr) return LLVMFuzzerMutate(data, size, max_size);
  if (size == 0) return 0;
  data[random.below(size)] ^= static_cast<std::uint8_t>(1U << random.below(8));
  return random.one_in(4) ? random.below(size) : size;
}

/// Copies `bytes` over `data` if they fit; otherwise changes `data` as bytes.
template <class Bytes>
std::size_t replace_or_mutate(const Bytes& bytes, std::uint8_t* data, std::size_t size, std::size_t max_size,
                              Random& random) {
  if (bytes.empty() || bytes.size() > max_size) return mutate_bytes(data, size, max_size, random);
  std::memcpy(data, bytes.data(), bytes.size());
  return bytes.size();
}

}  // namespace dif::fuzz
