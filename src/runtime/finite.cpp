#include "runtime/finite.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "base/float_convert.h"

namespace dif::runtime {

namespace {

template <class Bits, class Load>
FiniteSurvey survey(std::span<const std::byte> bytes, Load load) {
  FiniteSurvey result;
  for (std::size_t offset = 0; offset + sizeof(Bits) <= bytes.size(); offset += sizeof(Bits)) {
    Bits bits;
    std::memcpy(&bits, bytes.data() + offset, sizeof(Bits));
    const double value = load(bits);
    if (std::isfinite(value)) {
      result.largest_finite = std::max(result.largest_finite, std::fabs(value));
    } else {
      result.all_finite = false;
      result.has_nan |= std::isnan(value);
    }
  }
  return result;
}

/// An element is not finite exactly when its exponent bits are all ones: then one more carries into the sign.
/// A loop that the compiler turns into vectors.
template <class Bits>
bool none_has_exponent(std::span<const std::byte> bytes, Bits exponent) {
  const auto one_more = static_cast<Bits>(exponent & (~exponent + 1));
  const std::size_t count = bytes.size() / sizeof(Bits);
  Bits carried = 0;
  for (std::size_t i = 0; i < count; ++i) {
    Bits bits;
    std::memcpy(&bits, bytes.data() + i * sizeof(Bits), sizeof(Bits));
    carried |= static_cast<Bits>((bits & exponent) + one_more);
  }
  return carried >> (8 * sizeof(Bits) - 1) == 0;
}

}  // namespace

FiniteSurvey survey_finite(DType dtype, std::span<const std::byte> bytes) {
  switch (dtype) {
    case DType::kF32:
      return survey<float>(bytes, [](float value) { return double{value}; });
    case DType::kF64:
      return survey<double>(bytes, [](double value) { return value; });
    case DType::kBF16:
      return survey<std::uint16_t>(bytes, [](std::uint16_t b) { return double{bf16_to_f32(b)}; });
    case DType::kF16:
      return survey<std::uint16_t>(bytes, [](std::uint16_t b) { return double{f16_to_f32(b)}; });
    default:
      return {};
  }
}

bool all_finite(DType dtype, std::span<const std::byte> bytes) {
  switch (dtype) {
    case DType::kF32:
      return none_has_exponent<std::uint32_t>(bytes, 0x7f800000U);
    case DType::kF64:
      return none_has_exponent<std::uint64_t>(bytes, 0x7ff0000000000000U);
    case DType::kBF16:
      return none_has_exponent<std::uint16_t>(bytes, 0x7f80U);
    case DType::kF16:
      return none_has_exponent<std::uint16_t>(bytes, 0x7c00U);
    default:
      return true;
  }
}

}  // namespace dif::runtime
