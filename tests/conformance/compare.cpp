#include "tests/conformance/compare.h"

#include <cmath>
#include <cstring>
#include <limits>

namespace dif::conformance {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double smallest(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return 0x1p-24;
    case DType::kBF16:
      return 0x1p-133;
    default:
      return 0x1p-149;
  }
}

/// How far apart two elements are, in parts of what is allowed.
double part_of_allowed(double got, double want, bool same_bits, const Tolerance& tolerance, double scale,
                       DType dtype) {
  if (same_bits || (std::isnan(got) && std::isnan(want))) return 0;
  double allowed = tolerance.relative * std::abs(want) + tolerance.of_scale * scale;
  if (allowed != 0) allowed += smallest(dtype);
  if (allowed == 0 || std::isnan(got) || std::isnan(want)) return kInfinity;
  if (std::isinf(got) || std::isinf(want)) return got == want ? 0 : kInfinity;
  return std::abs(got - want) / allowed;
}

}  // namespace

Difference compare(const io::HostTensor& got, const io::HostTensor& want, const Tolerance& tolerance,
                   double scale) {
  if (got.dtype != want.dtype || got.shape != want.shape)
    return {kInfinity, fmt::format("{}{} instead of {}{}", got.dtype, got.shape, want.dtype, want.shape)};
  const std::vector<float> got_values = got.to_f32(), want_values = want.to_f32();
  const std::size_t size = dtype_size(got.dtype);
  const bool floating = is_floating(got.dtype);
  Difference worst;
  for (std::size_t i = 0; i < want_values.size(); ++i) {
    const bool same = std::memcmp(got.data.data() + i * size, want.data.data() + i * size, size) == 0;
    const double a = static_cast<double>(got_values[i]), b = static_cast<double>(want_values[i]);
    const double part = floating ? part_of_allowed(a, b, same, tolerance, scale, got.dtype)
                        : same   ? 0
                                 : kInfinity;
    if (part <= worst.of_allowed) continue;
    worst = {part, fmt::format("element {} of {} is {}, expected is {}: {:.3g} times what is allowed", i,
                               want_values.size(), a, b, part)};
  }
  return worst;
}

std::string attr_text(const ir::Attr& attr) {
  struct Visitor {
    std::string operator()(DType value) const { return std::string(dtype_name(value)); }
    std::string operator()(const std::vector<std::int64_t>& value) const {
      return fmt::format("[{}]", fmt::join(value, ", "));
    }
    std::string operator()(std::int64_t value) const { return fmt::format("{}", value); }
    std::string operator()(float value) const { return fmt::format("{}", value); }
    std::string operator()(bool value) const { return fmt::format("{}", value); }
  };
  return std::visit(Visitor(), attr);
}

}  // namespace dif::conformance
