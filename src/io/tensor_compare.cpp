#include "io/tensor_compare.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "base/error.h"
#include "base/format.h"

namespace dif::io {

namespace {

constexpr std::size_t kChunk = 4096;

template <class T>
void convert_each(std::span<const std::byte> bytes, std::span<double> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    T element;
    std::memcpy(&element, bytes.data() + i * sizeof(T), sizeof(T));
    out[i] = static_cast<double>(element);
  }
}

/// By way of f32 where that is exact.
void to_f64(DType dtype, std::span<const std::byte> bytes, std::span<double> out) {
  switch (dtype) {
    case DType::kF64:
      return convert_each<double>(bytes, out);
    case DType::kI32:
      return convert_each<std::int32_t>(bytes, out);
    case DType::kU32:
      return convert_each<std::uint32_t>(bytes, out);
    case DType::kI64:
      return convert_each<std::int64_t>(bytes, out);
    case DType::kU64:
      return convert_each<std::uint64_t>(bytes, out);
    default: {
      std::array<float, kChunk> narrow;
      const std::span values = std::span(narrow).first(out.size());
      convert_to_f32(dtype, bytes, values);
      std::ranges::copy(values, out.begin());
    }
  }
}

struct Sums {
  double dot = 0, reference = 0, actual = 0, difference = 0;

  Sums& operator+=(const Sums& other) {
    dot += other.dot;
    reference += other.reference;
    actual += other.actual;
    difference += other.difference;
    return *this;
  }
};

class Comparer {
 public:
  /// Sums are kept per chunk first: over millions of elements that costs no digits that matter.
  void add(std::span<const double> reference, std::span<const double> actual) {
    Sums chunk;
    for (std::size_t i = 0; i < reference.size(); ++i) {
      const double r = reference[i], a = actual[i];
      const bool finite = std::isfinite(r) && std::isfinite(a);
      result_.reference_nonfinite += std::isfinite(r) ? 0 : 1;
      result_.actual_nonfinite += std::isfinite(a) ? 0 : 1;
      result_.differing += r == a ? 0 : 1;
      if (!finite) continue;
      const double difference = a - r;
      chunk += {r * a, r * r, a * a, difference * difference};
      if (std::fabs(difference) <= result_.max_abs && worst_ >= 0) continue;
      result_.max_abs = std::fabs(difference);
      result_.worst_reference = r;
      result_.worst_actual = a;
      worst_ = result_.elements + static_cast<std::int64_t>(i);
    }
    sums_ += chunk;
    result_.elements += static_cast<std::int64_t>(reference.size());
  }

  TensorComparison finish(const Shape& shape) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const double reference = std::sqrt(sums_.reference), actual = std::sqrt(sums_.actual);
    if (reference > 0) {
      result_.rel_l2 = std::sqrt(sums_.difference) / reference;
      result_.norm_ratio = actual / reference;
      result_.cosine = actual > 0 ? std::clamp(sums_.dot / (reference * actual), -1.0, 1.0) : 0;
    } else if (actual > 0) {
      result_.rel_l2 = result_.norm_ratio = kInfinity;
      result_.cosine = 0;
    }
    if (worst_ >= 0) locate(shape);
    return std::move(result_);
  }

 private:
  void locate(const Shape& shape) {
    std::int64_t rest = worst_;
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      result_.worst.insert(result_.worst.begin(), rest % shape.dim(axis));
      rest /= shape.dim(axis);
    }
  }

  TensorComparison result_;
  Sums sums_;
  std::int64_t worst_ = -1;
};

}  // namespace

Result<TensorComparison> compare_tensors(const HostTensor& reference, const HostTensor& actual,
                                         bool flatten) {
  if (flatten && reference.numel() != actual.numel())
    return invalid_input("the reference has {} elements, the actual tensor {}", reference.numel(),
                         actual.numel());
  if (!flatten && reference.shape != actual.shape)
    return invalid_input(
        "the reference is {}, the actual tensor {}; --flatten compares tensors of other shapes element by "
        "element",
        reference.shape, actual.shape);
  Comparer comparer;
  std::array<double, kChunk> r, a;
  const auto total = static_cast<std::size_t>(reference.numel());
  for (std::size_t first = 0; first < total; first += kChunk) {
    const std::size_t count = std::min(kChunk, total - first);
    const auto part = [&](const HostTensor& tensor) {
      const std::size_t element = dtype_size(tensor.dtype);
      return tensor.bytes().subspan(first * element, count * element);
    };
    to_f64(reference.dtype, part(reference), std::span(r).first(count));
    to_f64(actual.dtype, part(actual), std::span(a).first(count));
    comparer.add(std::span(r).first(count), std::span(a).first(count));
  }
  return comparer.finish(reference.shape);
}

TensorComparison compare_f32(std::span<const float> reference, std::span<const float> actual) {
  DIF_CHECK(reference.size() == actual.size());
  Comparer comparer;
  std::array<double, kChunk> r, a;
  for (std::size_t first = 0; first < reference.size(); first += kChunk) {
    const std::size_t count = std::min(kChunk, reference.size() - first);
    std::ranges::copy(reference.subspan(first, count), r.begin());
    std::ranges::copy(actual.subspan(first, count), a.begin());
    comparer.add(std::span(r).first(count), std::span(a).first(count));
  }
  return comparer.finish({static_cast<std::int64_t>(reference.size())});
}

std::vector<std::string> broken_bars(const TensorComparison& c, const ComparisonBars& bars) {
  std::vector<std::string> broken;
  if (!c.all_finite())
    broken.push_back(
        fmt::format("NaN or infinity in {} elements of the reference and {} of the actual tensor",
                    c.reference_nonfinite, c.actual_nonfinite));
  // Written so that a figure that is NaN breaks its bar.
  const auto at_least = [&](const char* what, double found, std::optional<double> bar) {
    if (bar && !(found >= *bar))
      broken.push_back(fmt::format("{} {:.9g} is below {:.9g}", what, found, *bar));
  };
  const auto at_most = [&](const char* what, double found, std::optional<double> bar) {
    if (bar && !(found <= *bar))
      broken.push_back(fmt::format("{} {:.9g} is above {:.9g}", what, found, *bar));
  };
  at_least("cos", c.cosine, bars.min_cosine);
  at_most("rel_l2", c.rel_l2, bars.max_rel_l2);
  at_least("norm_ratio", c.norm_ratio, bars.min_norm_ratio);
  at_most("norm_ratio", c.norm_ratio, bars.max_norm_ratio);
  at_most("max_abs", c.max_abs, bars.max_abs);
  return broken;
}

std::string describe(const TensorComparison& c) {
  std::string text = fmt::format("cos {:.9g}, rel_l2 {:.3g}, norm_ratio {:.9g}, max_abs {:.3g}", c.cosine,
                                 c.rel_l2, c.norm_ratio, c.max_abs);
  if (c.max_abs > 0)
    text += fmt::format(" at [{}] ({:.7g} is {:.7g})", fmt::join(c.worst, ", "), c.worst_reference,
                        c.worst_actual);
  return text;
}

}  // namespace dif::io
