#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace dif {

/// Element types of tensors. The numbers are part of the file formats and of the plug-in ABI: append only.
enum class DType : std::uint8_t {
  kF32 = 0,
  kBF16 = 1,
  kF16 = 2,
  kF64 = 3,
  kI8 = 4,
  kU8 = 5,
  kI16 = 6,
  kU16 = 7,
  kI32 = 8,
  kU32 = 9,
  kI64 = 10,
  kU64 = 11,
  kBool = 12,
  kF8E4M3 = 13,
  kF8E5M2 = 14,
};

inline constexpr int kDTypeCount = 15;

/// Bytes of one element.
std::size_t dtype_size(DType dtype);
/// Lower-case name used in listings and options: f32, bf16, i64, ...
std::string_view dtype_name(DType dtype);
/// The dtype of such a name; nothing when the name is unknown.
std::optional<DType> dtype_from_name(std::string_view name);
/// f32, bf16, f16, f64 and the two f8 formats.
bool is_floating(DType dtype);

}  // namespace dif
