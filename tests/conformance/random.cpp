#include "tests/conformance/random.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace dif::conformance {

namespace {

io::HostTensor rounded(const ir::TensorType& type, const std::vector<float>& values) {
  const io::HostTensor wide = io::HostTensor::f32(type.shape, values);
  auto result = io::convert(wide, type.dtype);
  DIF_CHECK(result.has_value());
  return std::move(*result);
}

template <class Next>
std::vector<float> filled(const Shape& shape, Next next) {
  std::vector<float> values(static_cast<std::size_t>(shape.numel()));
  std::ranges::generate(values, [&] { return static_cast<float>(next()); });
  return values;
}

}  // namespace

std::uint64_t Random::next() {
  return engine_();
}

// The distributions of the standard library differ between implementations, so these are written out.
std::int64_t Random::between(std::int64_t lo, std::int64_t hi) {
  return lo + static_cast<std::int64_t>(next() % (static_cast<std::uint64_t>(hi - lo) + 1));
}

double Random::uniform(double lo, double hi) {
  return lo + (hi - lo) * static_cast<double>(next() >> 11) * 0x1p-53;
}

double Random::normal() {
  const double radius = std::sqrt(-2 * std::log(1 - uniform(0, 1)));
  return radius * std::cos(2 * std::numbers::pi * uniform(0, 1));
}

std::int64_t Random::size(std::int64_t most) {
  if (one_in(2)) return between(1, most);
  return std::min(most,
                  pick<std::int64_t>({1, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128}));
}

Shape Random::shape(int least_rank, int most_rank, std::int64_t most) {
  std::vector<std::int64_t> dims(static_cast<std::size_t>(between(least_rank, most_rank)));
  std::int64_t left = most;
  for (std::int64_t& dim : dims) {
    dim = size(std::min<std::int64_t>(left, 130));
    left = std::max<std::int64_t>(1, left / dim);
  }
  if (!dims.empty() && one_in(24))
    dims[static_cast<std::size_t>(between(0, static_cast<std::int64_t>(dims.size()) - 1))] = 0;
  return Shape(dims);
}

io::HostTensor Random::normal(const ir::TensorType& type, double scale, double mean) {
  return rounded(type, filled(type.shape, [&] { return normal() * scale + mean; }));
}

io::HostTensor Random::uniform(const ir::TensorType& type, double lo, double hi) {
  return rounded(type, filled(type.shape, [&] { return uniform(lo, hi); }));
}

io::HostTensor Random::special(const ir::TensorType& type) {
  using Limits = std::numeric_limits<float>;
  return rounded(type, filled(type.shape, [&] {
                   if (!one_in(8)) return static_cast<float>(normal());
                   return pick({0.0f, -0.0f, Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN(),
                                Limits::denorm_min(), -3e-39f, 6e-8f, Limits::max(), 65504.0f, 1e30f});
                 }));
}

io::HostTensor Random::integers(const Shape& shape, std::int32_t lo, std::int32_t hi) {
  std::vector<std::int32_t> values(static_cast<std::size_t>(shape.numel()));
  std::ranges::generate(values, [&] { return static_cast<std::int32_t>(between(lo, hi)); });
  return io::HostTensor::from<std::int32_t>(DType::kI32, shape, values);
}

io::HostTensor Random::flags(const Shape& shape) {
  return bits({DType::kBool, shape});
}

io::HostTensor Random::bits(const ir::TensorType& type) {
  io::HostTensor result(type.dtype, type.shape);
  const auto mask = static_cast<std::byte>(type.dtype == DType::kBool ? 1 : 0xff);
  for (std::byte& byte : result.data) byte = static_cast<std::byte>(next() >> 56) & mask;
  return result;
}

}  // namespace dif::conformance
