#include "io/digest.h"

#include <openssl/evp.h>

#include <new>

#include "base/check.h"

namespace dif::io {

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  if (context_ == nullptr) throw std::bad_alloc();
  if (EVP_DigestInit_ex(context_, EVP_sha256(), nullptr) == 1) return;
  EVP_MD_CTX_free(context_);
  throw std::bad_alloc();  // OpenSSL has SHA-256, and fetches it into memory
}

Sha256::~Sha256() {
  EVP_MD_CTX_free(context_);
}

void Sha256::update(std::span<const std::byte> bytes) {
  DIF_CHECK(EVP_DigestUpdate(context_, bytes.data(), bytes.size()) == 1);
}

Digest Sha256::finish() {
  Digest digest;
  unsigned int bytes = 0;
  DIF_CHECK(EVP_DigestFinal_ex(context_, digest.data(), &bytes) == 1 && bytes == digest.size());
  return digest;
}

Digest sha256(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.finish();
}

Digest sha256(std::string_view bytes) {
  return sha256(std::as_bytes(std::span(bytes)));
}

std::string hex(std::span<const std::uint8_t> bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const std::uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::optional<Digest> digest_from_hex(std::string_view text) {
  Digest digest;
  if (text.size() != 2 * digest.size()) return std::nullopt;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    int value = -1;
    if (c >= '0' && c <= '9') value = c - '0';
    if (c >= 'a' && c <= 'f') value = c - 'a' + 10;
    if (value < 0) return std::nullopt;
    digest[i / 2] = static_cast<std::uint8_t>(i % 2 == 0 ? value << 4 : digest[i / 2] | value);
  }
  return digest;
}

}  // namespace dif::io
