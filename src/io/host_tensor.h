#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "base/check.h"
#include "dif/dtype.h"
#include "dif/shape.h"
#include "dif/status.h"

namespace dif::io {

/// The C++ type whose objects have the bits of a dtype; std::uint16_t also serves bf16 and f16, std::uint8_t
/// also bool and the f8 formats.
template <class T>
constexpr bool holds(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return std::is_same_v<T, float>;
    case DType::kF64:
      return std::is_same_v<T, double>;
    case DType::kI8:
      return std::is_same_v<T, std::int8_t>;
    case DType::kI16:
      return std::is_same_v<T, std::int16_t>;
    case DType::kI32:
      return std::is_same_v<T, std::int32_t>;
    case DType::kI64:
      return std::is_same_v<T, std::int64_t>;
    case DType::kU32:
      return std::is_same_v<T, std::uint32_t>;
    case DType::kU64:
      return std::is_same_v<T, std::uint64_t>;
    case DType::kU16:
    case DType::kBF16:
    case DType::kF16:
      return std::is_same_v<T, std::uint16_t>;
    case DType::kU8:
    case DType::kBool:
    case DType::kF8E4M3:
    case DType::kF8E5M2:
      return std::is_same_v<T, std::uint8_t>;
  }
  return false;
}

/// A tensor in host memory that owns its bytes: little-endian, C order, aligned to 16 bytes.
struct HostTensor {
  DType dtype = DType::kF32;
  Shape shape;
  std::vector<std::byte> data;  ///< shape.numel() * dtype_size(dtype)

  HostTensor() : data(4) {}  ///< the f32 scalar 0
  /// Zeros. Pre: the shape's byte count fits (readers of files check before they call).
  HostTensor(DType dtype, const Shape& shape);
  HostTensor(DType dtype, const Shape& shape, std::vector<std::byte> data);
  /// Pre: holds<T>(dtype) and values.size() == shape.numel().
  template <class T>
  static HostTensor from(DType dtype, const Shape& shape, std::span<const T> values) {
    DIF_CHECK(holds<T>(dtype));
    const auto bytes = std::as_bytes(values);
    return HostTensor(dtype, shape, std::vector<std::byte>(bytes.begin(), bytes.end()));
  }
  static HostTensor f32(const Shape& shape, std::span<const float> values) {
    return from<float>(DType::kF32, shape, values);
  }

  std::int64_t numel() const { return shape.numel(); }
  std::span<const std::byte> bytes() const { return data; }

  /// The elements. Pre: holds<T>(dtype).
  template <class T>
  std::span<const T> as() const {
    DIF_CHECK(holds<T>(dtype));
    return {reinterpret_cast<const T*>(data.data()), data.size() / sizeof(T)};
  }
  template <class T>
  std::span<T> as() {
    DIF_CHECK(holds<T>(dtype));
    return {reinterpret_cast<T*>(data.data()), data.size() / sizeof(T)};
  }

  /// Every element as f32: exact for all formats of up to 24 significant bits, else rounded to nearest even.
  std::vector<float> to_f32() const;
};

/// Converts elements of `dtype` that lie in `bytes` (any alignment) to f32. Pre: out.size() elements are
/// there.
void convert_to_f32(DType dtype, std::span<const std::byte> bytes, std::span<float> out);

/// `tensor` in another floating dtype (f32, bf16, f16, f64), by way of f32 unless it is f64 to f64; rounds to
/// nearest even. Errors: kInvalidInput for other target dtypes.
Result<HostTensor> convert(const HostTensor& tensor, DType dtype);

}  // namespace dif::io
