#include "io/host_tensor.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/float_convert.h"
#include "base/format.h"

namespace dif::io {

namespace {

std::size_t byte_count(DType dtype, const Shape& shape) {
  return static_cast<std::size_t>(shape.numel()) * dtype_size(dtype);
}

/// E4M3 without infinities (the "fn" form of the safetensors word F8_E4M3): bias 7, S.1111.111 is NaN.
/// Source: Micikevicius et al. 2022, "FP8 Formats for Deep Learning".
float f8_e4m3_to_f32(std::uint8_t bits) {
  const int exponent = (bits >> 3) & 15, mantissa = bits & 7;
  const float sign = (bits & 0x80) != 0 ? -1.0F : 1.0F;
  if (exponent == 15 && mantissa == 7) return std::bit_cast<float>(0x7fc00000U);
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(mantissa), -9);
  return sign * std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
}

/// E5M2 is the upper byte of an f16.
float f8_e5m2_to_f32(std::uint8_t bits) {
  return f16_to_f32(static_cast<std::uint16_t>(bits << 8));
}

template <class T, class Convert>
void convert_each(std::span<const std::byte> bytes, std::span<float> out, Convert to_f32) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    T element;
    std::memcpy(&element, bytes.data() + i * sizeof(T), sizeof(T));
    out[i] = to_f32(element);
  }
}

}  // namespace

HostTensor::HostTensor(DType dtype, const Shape& shape)
    : dtype(dtype), shape(shape), data(byte_count(dtype, shape)) {}

HostTensor::HostTensor(DType dtype, const Shape& shape, std::vector<std::byte> data)
    : dtype(dtype), shape(shape), data(std::move(data)) {
  DIF_CHECK(this->data.size() == byte_count(dtype, shape));
}

std::vector<float> HostTensor::to_f32() const {
  std::vector<float> out(static_cast<std::size_t>(numel()));
  convert_to_f32(dtype, data, out);
  return out;
}

void convert_to_f32(DType dtype, std::span<const std::byte> bytes, std::span<float> out) {
  DIF_CHECK(bytes.size() == out.size() * dtype_size(dtype));
  const auto cast = [](auto value) { return static_cast<float>(value); };
  switch (dtype) {
    case DType::kF32:
      if (!out.empty()) std::memcpy(out.data(), bytes.data(), bytes.size());
      return;
    case DType::kBF16:
      return convert_each<std::uint16_t>(bytes, out, bf16_to_f32);
    case DType::kF16:
      return convert_each<std::uint16_t>(bytes, out, f16_to_f32);
    case DType::kF64:
      return convert_each<double>(bytes, out, cast);
    case DType::kI8:
      return convert_each<std::int8_t>(bytes, out, cast);
    case DType::kU8:
    case DType::kBool:
      return convert_each<std::uint8_t>(bytes, out, cast);
    case DType::kI16:
      return convert_each<std::int16_t>(bytes, out, cast);
    case DType::kU16:
      return convert_each<std::uint16_t>(bytes, out, cast);
    case DType::kI32:
      return convert_each<std::int32_t>(bytes, out, cast);
    case DType::kU32:
      return convert_each<std::uint32_t>(bytes, out, cast);
    case DType::kI64:
      return convert_each<std::int64_t>(bytes, out, cast);
    case DType::kU64:
      return convert_each<std::uint64_t>(bytes, out, cast);
    case DType::kF8E4M3:
      return convert_each<std::uint8_t>(bytes, out, f8_e4m3_to_f32);
    case DType::kF8E5M2:
      return convert_each<std::uint8_t>(bytes, out, f8_e5m2_to_f32);
  }
}

Result<HostTensor> convert(const HostTensor& tensor, DType dtype) {
  if (dtype == tensor.dtype) return tensor;
  const std::vector<float> values = tensor.to_f32();
  HostTensor out(dtype, tensor.shape);
  switch (dtype) {
    case DType::kF32:
      return HostTensor::f32(tensor.shape, values);
    case DType::kBF16:
      for (std::size_t i = 0; i < values.size(); ++i) out.as<std::uint16_t>()[i] = f32_to_bf16(values[i]);
      return out;
    case DType::kF16:
      for (std::size_t i = 0; i < values.size(); ++i) out.as<std::uint16_t>()[i] = f32_to_f16(values[i]);
      return out;
    case DType::kF64:
      for (std::size_t i = 0; i < values.size(); ++i) out.as<double>()[i] = values[i];
      return out;
    default:
      return invalid_input("cannot convert {} to {}; use f32, bf16, f16 or f64", tensor.dtype, dtype);
  }
}

}  // namespace dif::io
