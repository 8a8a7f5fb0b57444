#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

namespace dif {

/// a + b, or nothing on overflow.
template <std::integral T>
std::optional<T> checked_add(T a, T b) {
  T sum;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

/// a + b, or the largest number there is: for sizes that are compared with what a machine has.
template <std::unsigned_integral T>
constexpr T saturating_add(T a, T b) {
  return a > std::numeric_limits<T>::max() - b ? std::numeric_limits<T>::max() : a + b;
}

/// a * b, or nothing on overflow.
template <std::integral T>
std::optional<T> checked_mul(T a, T b) {
  T product;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

/// a / b rounded up. Pre: a >= 0, b > 0.
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

/// The smallest multiple of `alignment` that is >= value. Pre: alignment is a power of two.
constexpr std::size_t align_up(std::size_t value, std::size_t alignment) {
  return (value + alignment - 1) & ~(alignment - 1);
}

}  // namespace dif
