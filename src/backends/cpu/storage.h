#pragma once

#include <cstdint>
#include <utility>

#include "base/check.h"
#include "base/float_convert.h"
#include "dif/dtype.h"
#include "ops/common/checks.h"

/// Floating dtypes as C++ types, so that a kernel can be written once for all three.
namespace dif::cpu {

struct Bf16 {
  std::uint16_t bits;
};

struct F16 {
  std::uint16_t bits;
};

inline float to_f32(float x) {
  return x;
}
inline float to_f32(Bf16 x) {
  return bf16_to_f32(x.bits);
}
inline float to_f32(F16 x) {
  return f16_to_f32(x.bits);
}

inline void round_to(float value, float& out) {
  out = value;
}
inline void round_to(float value, Bf16& out) {
  out.bits = f32_to_bf16(value);
}
inline void round_to(float value, F16& out) {
  out.bits = f32_to_f16(value);
}

/// body(T{}) with T = float, Bf16 or F16. Pre: is_float(dtype).
template <class Body>
void with_storage(DType dtype, Body&& body) {
  DIF_CHECK(ops::is_float(dtype));
  if (dtype == DType::kF32) {
    body(float{});
  } else if (dtype == DType::kBF16) {
    body(Bf16{});
  } else {
    body(F16{});
  }
}

}  // namespace dif::cpu
