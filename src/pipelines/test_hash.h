#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace dif::test {

/// 64-bit FNV-1a, as scripts/oracle/make_test_tables.py computes it.
inline std::uint64_t fnv1a(std::span<const std::byte> bytes) {
  std::uint64_t value = 0xCBF29CE484222325ULL;
  for (const std::byte byte : bytes) value = (value ^ static_cast<std::uint64_t>(byte)) * 0x100000001B3ULL;
  return value;
}

template <class T>
std::uint64_t fnv1a_of(std::span<const T> values) {
  return fnv1a(std::as_bytes(values));
}

}  // namespace dif::test
