#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/float_convert.h"
#include "ir/op_def.h"
#include "runtime/kernel.h"

/// How reference kernels read and write elements: f32 outside, the tensor's dtype inside, any alignment.
namespace dif::reference {

/// How one floating dtype is stored.
template <DType dtype>
struct Format;

template <>
struct Format<DType::kF32> {
  using Bits = float;
  static float decode(float bits) { return bits; }
  static float encode(float value) { return value; }
};

template <>
struct Format<DType::kBF16> {
  using Bits = std::uint16_t;
  static float decode(std::uint16_t bits) { return bf16_to_f32(bits); }
  static std::uint16_t encode(float value) { return f32_to_bf16(value); }
};

template <>
struct Format<DType::kF16> {
  using Bits = std::uint16_t;
  static float decode(std::uint16_t bits) { return f16_to_f32(bits); }
  static std::uint16_t encode(float value) { return f32_to_f16(value); }
};

template <class T>
T load(const std::byte* base, std::int64_t index) {
  T value;
  std::memcpy(&value, base + index * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
  return value;
}

template <class T>
void store(std::byte* base, std::int64_t index, T value) {
  std::memcpy(base + index * static_cast<std::int64_t>(sizeof(T)), &value, sizeof(T));
}

/// The elements of a tensor of floating `dtype`.
template <DType dtype>
class Elements {
  using Bits = typename Format<dtype>::Bits;

 public:
  explicit Elements(const runtime::TensorView& tensor) : base_(tensor.buffer.pointer()) {}

  float operator[](std::int64_t index) const { return Format<dtype>::decode(load<Bits>(base_, index)); }
  /// The one rounding to the tensor's dtype.
  void set(std::int64_t index, float value) const { store<Bits>(base_, index, Format<dtype>::encode(value)); }
  void set(std::int64_t index, double value) const { set(index, static_cast<float>(value)); }

  /// `count` elements from `first` on, exact.
  void decode(std::int64_t first, std::int64_t count, double* out) const {
    for (std::int64_t i = 0; i < count; ++i) out[i] = static_cast<double>((*this)[first + i]);
  }

 private:
  std::byte* base_;
};

/// Calls `body.template operator()<dtype>()` for f32, bf16 or f16.
template <class Body>
Status for_float(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::kF32:
      body.template operator()<DType::kF32>();
      return ok();
    case DType::kBF16:
      body.template operator()<DType::kBF16>();
      return ok();
    case DType::kF16:
      body.template operator()<DType::kF16>();
      return ok();
    default:
      return fail(ErrorCode::kInternal, "the reference kernels do not compute on {}", dtype);
  }
}

/// y[i] = function(x[i]) for each element, x and y of one floating dtype.
template <class Function>
Status map_elements(const runtime::KernelArgs& args, Function function) {
  return for_float(args.in[0].type->dtype, [&]<DType dtype>() {
    const Elements<dtype> x(args.in[0]), y(args.out[0]);
    const std::int64_t count = args.out[0].type->numel();
    for (std::int64_t i = 0; i < count; ++i) y.set(i, function(x[i]));
  });
}

/// Product of the dimensions of axes first .. last-1.
inline std::int64_t product(const Shape& shape, int first, int last) {
  std::int64_t result = 1;
  for (int axis = first; axis < last; ++axis) result *= shape.dim(axis);
  return result;
}

/// Calls `visit(position, offsets)` for every element of `shape` in row-major order, where offsets[k] is the
/// sum of index times strides[k] over the axes.
template <std::size_t n, class Visit>
void for_each_element(const Shape& shape, const std::vector<std::int64_t> (&strides)[n], Visit visit) {
  const std::int64_t count = shape.numel();
  const int rank = shape.rank();
  std::vector<std::int64_t> index(static_cast<std::size_t>(rank));
  std::int64_t offsets[n] = {};
  for (std::int64_t position = 0; position < count; ++position) {
    visit(position, offsets);
    for (int axis = rank - 1; axis >= 0; --axis) {
      const auto a = static_cast<std::size_t>(axis);
      const std::int64_t size = shape.dim(axis);
      const bool wraps = ++index[a] == size;
      for (std::size_t k = 0; k < n; ++k) offsets[k] += wraps ? -(size - 1) * strides[k][a] : strides[k][a];
      if (!wraps) break;
      index[a] = 0;
    }
  }
}

}  // namespace dif::reference
