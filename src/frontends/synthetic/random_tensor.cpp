#include "frontends/synthetic/random_tensor.h"

#include <fmt/format.h>

#include <cmath>

#include "base/check.h"
#include "io/digest.h"

namespace dif::frontends {

namespace {

constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15ULL;
constexpr std::int32_t kMiddle = 4 * 65535 / 2;
constexpr double kDeviation = 37837.22;  // sqrt(4 (65536^2 - 1) / 12)

std::uint64_t mix64(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

std::uint64_t key_of(std::uint64_t seed, std::string_view name) {
  const io::Digest digest = io::sha256(fmt::format("{} {}", seed, name));
  std::uint64_t key = 0;
  for (int i = 7; i >= 0; --i) key = key << 8 | digest[static_cast<std::size_t>(i)];
  return key;
}

}  // namespace

RandomTensor::RandomTensor(std::uint64_t seed, std::string_view name, double centre, double spread)
    : key_(key_of(seed, name)), scale_(static_cast<float>(spread / kDeviation)) {
  DIF_CHECK(spread > 0 && std::abs(centre) < 100 * spread);
  offset_ = static_cast<std::int32_t>(std::lround(centre / static_cast<double>(scale_))) - kMiddle;
}

void RandomTensor::fill(std::uint64_t first, std::span<float> values) const {
  std::uint64_t state = key_ + first * kGolden;
  for (float& value : values) {
    const std::uint64_t bits = mix64(state += kGolden);
    const auto sum = static_cast<std::int32_t>((bits & 0xffff) + (bits >> 16 & 0xffff) +
                                               (bits >> 32 & 0xffff) + (bits >> 48));
    value = static_cast<float>(sum + offset_) * scale_;
  }
}

}  // namespace dif::frontends
