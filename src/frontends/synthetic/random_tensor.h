#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace dif::frontends {

/// Random numbers with a mean of about `centre`, a standard deviation of about `spread` and nothing beyond
/// centre +- 3.47 spread. Element i depends on (seed, name, i) alone, so that any part of any tensor can be
/// made again by itself, on any machine, bit for bit:
///
///     key      = first 8 bytes, little-endian, of SHA-256 of "SEED NAME" (SEED in decimal)
///     bits     = mix64(key + (i + 1) * 0x9e3779b97f4a7c15)            modulo 2^64
///     sum      = sum of the four 16-bit fields of bits - 131070        mean 0, deviation 37837.22
///     scale    = f32(spread / 37837.22)
///     value    = f32(sum + round(centre / scale)) * scale              one rounding
///
/// mix64 is the output function of SplitMix64 (Steele, Lea, Flood 2014, "Fast splittable pseudorandom number
/// generators"): z ^= z >> 30; z *= 0xbf58476d1ce4e5b9; z ^= z >> 27; z *= 0x94d049bb133111eb; z ^= z >> 31.
/// The sum of four uniform numbers is close to a normal one, and needs no function of the mathematics
/// library.
class RandomTensor {
 public:
  /// Pre: spread > 0 and |centre| < 100 spread.
  RandomTensor(std::uint64_t seed, std::string_view name, double centre, double spread);

  /// The elements `first`, `first` + 1, ...
  void fill(std::uint64_t first, std::span<float> values) const;

 private:
  std::uint64_t key_;
  std::int32_t offset_;
  float scale_;
};

}  // namespace dif::frontends
