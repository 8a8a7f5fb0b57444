#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>

#include "base/check.h"
#include "base/checked_math.h"
#include "dif/dtype.h"
#include "dif/shape.h"
#include "fmt/format.h"

namespace dif {

namespace {

struct DTypeFacts {
  std::string_view name;
  std::size_t bytes;
  bool floating;
};

constexpr std::array<DTypeFacts, kDTypeCount> kDTypes = {{{"f32", 4, true},
                                                          {"bf16", 2, true},
                                                          {"f16", 2, true},
                                                          {"f64", 8, true},
                                                          {"i8", 1, false},
                                                          {"u8", 1, false},
                                                          {"i16", 2, false},
                                                          {"u16", 2, false},
                                                          {"i32", 4, false},
                                                          {"u32", 4, false},
                                                          {"i64", 8, false},
                                                          {"u64", 8, false},
                                                          {"bool", 1, false},
                                                          {"f8_e4m3", 1, true},
                                                          {"f8_e5m2", 1, true}}};

const DTypeFacts& facts(DType dtype) {
  const auto index = static_cast<std::size_t>(dtype);
  DIF_CHECK(index < kDTypes.size());
  return kDTypes[index];
}

}  // namespace

std::size_t dtype_size(DType dtype) {
  return facts(dtype).bytes;
}

std::string_view dtype_name(DType dtype) {
  return facts(dtype).name;
}

std::optional<DType> dtype_from_name(std::string_view name) {
  for (std::size_t i = 0; i < kDTypes.size(); ++i)
    if (kDTypes[i].name == name) return static_cast<DType>(i);
  return std::nullopt;
}

bool is_floating(DType dtype) {
  return facts(dtype).floating;
}

Shape::Shape(std::initializer_list<std::int64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}

Shape::Shape(std::span<const std::int64_t> dims) : rank_(static_cast<int>(dims.size())) {
  DIF_CHECK(dims.size() <= kMaxRank);
  std::copy(dims.begin(), dims.end(), dims_.begin());
}

std::int64_t Shape::dim(int axis) const {
  if (axis < 0) axis += rank_;
  DIF_CHECK(axis >= 0 && axis < rank_);
  return dims_[static_cast<std::size_t>(axis)];
}

void Shape::set_dim(int axis, std::int64_t value) {
  if (axis < 0) axis += rank_;
  DIF_CHECK(axis >= 0 && axis < rank_);
  dims_[static_cast<std::size_t>(axis)] = value;
}

std::optional<std::int64_t> Shape::checked_numel() const {
  std::int64_t product = 1;
  bool zero = false;
  for (const std::int64_t dim : dims()) {
    if (dim < 0) return std::nullopt;
    if (dim == 0) {
      zero = true;
      continue;
    }
    const auto next = checked_mul(product, dim);
    if (!next) return std::nullopt;
    product = *next;
  }
  return zero ? 0 : product;
}

std::int64_t Shape::numel() const {
  const auto count = checked_numel();
  DIF_CHECK(count.has_value());
  return *count;
}

std::string Shape::to_string() const {
  return fmt::format("[{}]", fmt::join(dims(), ", "));
}

bool operator==(const Shape& a, const Shape& b) {
  return std::ranges::equal(a.dims(), b.dims());
}

namespace internal {
void check_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "internal error: %s does not hold at %s:%d; please report this\n", condition, file,
               line);
  std::_Exit(70);
}
}  // namespace internal

}  // namespace dif
