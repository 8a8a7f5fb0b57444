#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

struct evp_md_ctx_st;

namespace dif::io {

/// A SHA-256 digest, as the 32 raw bytes.
using Digest = std::array<std::uint8_t, 32>;

/// Streaming SHA-256 (OpenSSL EVP): update any number of times, finish once.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void update(std::span<const std::byte> bytes);
  void update(std::string_view bytes) { update(std::as_bytes(std::span(bytes))); }
  /// The digest of everything given so far. Pre: called once, nothing is added afterwards.
  Digest finish();

 private:
  evp_md_ctx_st* context_;
};

Digest sha256(std::span<const std::byte> bytes);
Digest sha256(std::string_view bytes);

/// Lower-case hexadecimal, two characters a byte.
std::string hex(std::span<const std::uint8_t> bytes);
/// The digest of 64 lower-case hexadecimal characters; nothing for any other text.
std::optional<Digest> digest_from_hex(std::string_view text);

}  // namespace dif::io
