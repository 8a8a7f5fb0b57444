#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "io/digest.h"

namespace dif::cpu {

/// Two numbers that differ for different bytes, but for a chance of about 2^-64: a universal hash under keys
/// that whoever makes the bytes does not know, so that no file can be made to collide. Source: Black et al.
/// 1999 (UMAC: NH, and a polynomial over it).
struct Fingerprint {
  std::uint64_t first = 0, second = 0;
  friend bool operator==(const Fingerprint&, const Fingerprint&) = default;
};

class FingerprintKeys {
 public:
  static constexpr std::size_t kStripeWords = 256;  ///< 32-bit words under one key

  /// The same keys for the same secret.
  explicit FingerprintKeys(const io::Digest& secret);
  /// Drawn when this is first called: for fingerprints that no other process sees.
  static const FingerprintKeys& of_this_process();

  std::array<std::uint32_t, kStripeWords + 4> words;  ///< the second number's begin 4 words later
  std::uint64_t first = 0, second = 0;
};

/// Spread over the threads, as fast as memory is read.
Fingerprint fingerprint(std::span<const std::byte> bytes,
                        const FingerprintKeys& keys = FingerprintKeys::of_this_process());

}  // namespace dif::cpu
