#include "ops/common/checks.h"

#include <algorithm>
#include <limits>

#include "base/checked_math.h"

namespace dif::ops {

bool is_float(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16;
}

bool is_number(DType dtype) {
  return is_float(dtype) || dtype == DType::kI32;
}

std::optional<Shape> broadcast(const Shape& x, const Shape& y) {
  const Shape& longer = x.rank() >= y.rank() ? x : y;
  const Shape& shorter = x.rank() >= y.rank() ? y : x;
  Shape result = longer;
  for (int axis = -shorter.rank(); axis < 0; ++axis) {
    const std::int64_t a = longer.dim(axis), b = shorter.dim(axis);
    if (a != b && a != 1 && b != 1) return std::nullopt;
    result.set_dim(axis, a == 1 ? b : a);
  }
  return result;
}

std::int64_t from_front(std::int64_t axis, int rank) {
  return axis < 0 && axis >= -rank ? axis + rank : axis;
}

std::int64_t saturating_add(std::int64_t a, std::int64_t b) {
  return checked_add(a, b).value_or(std::numeric_limits<std::int64_t>::max());
}

std::int64_t saturating_mul(std::int64_t a, std::int64_t b) {
  return checked_mul(a, b).value_or(std::numeric_limits<std::int64_t>::max());
}

double elements(const ir::TensorType& type) {
  double product = 1;
  for (const std::int64_t dim : type.shape.dims()) product *= static_cast<double>(dim);
  return product;
}

std::string list_text(std::span<const std::int64_t> numbers) {
  constexpr std::size_t kShown = 8;
  return fmt::format("[{}{}]", fmt::join(numbers.first(std::min(numbers.size(), kShown)), ", "),
                     numbers.size() > kShown ? ", ..." : "");
}

Status verify_binary(const ir::OpView& op) {
  const ir::TensorType &x = op.in(0), &y = op.in(1);
  if (x.dtype != y.dtype) return op.broken("C1", "x is {}, y is {}", x.dtype, y.dtype);
  if (!is_number(x.dtype)) return op.broken("C1", "x is {}, needed is f32, bf16, f16 or i32", x.dtype);
  if (!broadcast(x.shape, y.shape))
    return op.broken("C2", "shapes {} and {} do not broadcast", x.shape, y.shape);
  return ok();
}

ir::Types infer_binary(const ir::OpView& op) {
  return {{op.in(0).dtype, *broadcast(op.in(0).shape, op.in(1).shape)}};
}

ir::Types infer_same(const ir::OpView& op) {
  return {op.in(0)};
}

double no_flops(const ir::OpView&) {
  return 0;
}

}  // namespace dif::ops
