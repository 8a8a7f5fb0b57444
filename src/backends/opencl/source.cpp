#include "backends/opencl/source.h"

#include <limits>

#include "base/check.h"
#include "ops/common/checks.h"
#include "runtime/kernel.h"

namespace dif::opencl {

namespace {

constexpr const char* kHead = R"(#pragma OPENCL FP_CONTRACT OFF
#define VIEW(type, x) global type* x = (global type*)(x##_buffer + x##_offset)
typedef float f32_bits;
typedef float16 f32_bits16;
typedef ushort bf16_bits;
typedef ushort16 bf16_bits16;
typedef ushort f16_bits;
typedef ushort16 f16_bits16;
typedef int i32_bits;
typedef int16 i32_bits16;
)";

/// For n = nothing and n = 16. The roundings are done in integers, as base/float_convert.h does them, so that
/// every device gives the same bits.
constexpr const char* kRoundings = R"(
float@n@ decode@n@_bf16(ushort@n@ bits) { return as_float@n@(convert_uint@n@(bits) << 16); }
ushort@n@ encode@n@_bf16(float@n@ v) {
  uint@n@ u = as_uint@n@(v);
  uint@n@ near = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  return convert_ushort@n@(select(near, (u >> 16) | 0x40u, (u & 0x7fffffffu) > 0x7f800000u));
}
ushort@n@ encode@n@_f16(float@n@ v) {
  uint@n@ u = as_uint@n@(v), m = u & 0x7fffffffu;
  uint@n@ h = (m + 0xfffu + ((m >> 13) & 1u) - (112u << 23)) >> 13;
  h = select(h, as_uint@n@(as_float@n@(m) + 0.5f) - 0x3f000000u, m < 0x38800000u);
  h = select(h, (uint@n@)(0x7c00u), m >= 0x477ff000u);
  h = select(h, 0x7e00u | ((m >> 13) & 0x3ffu), m > 0x7f800000u);
  return convert_ushort@n@(((u >> 16) & 0x8000u) | h);
}
float@n@ decode@n@_f16(ushort@n@ bits) {
  uint@n@ h = convert_uint@n@(bits), e = h & 0x7c00u;
  uint@n@ m = (h & 0x7fffu) << 13;
  uint@n@ u = select(m + (112u << 23), m + (224u << 23), e == 0x7c00u);
  u = select(u, as_uint@n@(convert_float@n@(h & 0x3ffu) * 0x1p-24f), e == 0u);
  return as_float@n@(u | ((h & 0x8000u) << 16));
}
float@n@ round@n@_f32(float@n@ v) { return v; }
int@n@ round@n@_i32(int@n@ v) { return v; }
float@n@ round@n@_bf16(float@n@ v) { return decode@n@_bf16(encode@n@_bf16(v)); }
float@n@ round@n@_f16(float@n@ v) { return decode@n@_f16(encode@n@_f16(v)); }
)";

/// Sixteen elements, or the first `count` of them and zeros: the vector's arithmetic is the same for both, so
/// a row's last elements get the bits that they would get elsewhere.
constexpr const char* kVectors = R"(
@type@16 load16_@S@(global const @S@_bits* p, int count) {
  if (count >= 16) return @load@;
  @type@ part[16];
  for (int j = 0; j < 16; ++j) part[j] = j < count ? load_@S@(p, j) : 0;
  return vload16(0, part);
}
void store16_@S@(global @S@_bits* p, int count, @type@16 v) {
  const @S@_bits16 bits = @encode@;
  if (count >= 16) {
    vstore16(bits, 0, p);
    return;
  }
  @S@_bits part[16];
  vstore16(bits, 0, part);
  for (int j = 0; j < count; ++j) p[j] = part[j];
}
)";

std::string vectors() {
  const auto one = [](std::string type, std::string s, std::string load, std::string encode) {
    return fill(kVectors, {{"type", std::move(type)},
                           {"S", std::move(s)},
                           {"load", std::move(load)},
                           {"encode", std::move(encode)}});
  };
  return one("float", "f32", "vload16(0, p)", "v") + one("int", "i32", "vload16(0, p)", "v") +
         one("float", "bf16", "decode16_bf16(vload16(0, p))", "encode16_bf16(v)") +
         one("float", "f16", "vload_half16(0, (global const half*)p)", "encode16_f16(v)");
}

constexpr const char* kAccess = R"(
#define load_f32(p, i) ((p)[i])
#define load_i32(p, i) ((p)[i])
#define load_bf16(p, i) decode_bf16((p)[i])
#define load_f16(p, i) vload_half(i, (global const half*)(p))
#define store_f32(p, i, v) ((p)[i] = (v))
#define store_i32(p, i, v) ((p)[i] = (v))
#define store_bf16(p, i, v) ((p)[i] = encode_bf16(v))
#define store_f16(p, i, v) ((p)[i] = encode_f16(v))
float sum16(float16 v) {
  float8 a = v.lo + v.hi;
  float4 b = a.lo + a.hi;
  float2 c = b.lo + b.hi;
  return c.x + c.y;
}
float max16(float16 v) {
  float8 a = fmax(v.lo, v.hi);
  float4 b = fmax(a.lo, a.hi);
  float2 c = fmax(b.lo, b.hi);
  return fmax(c.x, c.y);
}
)";

}  // namespace

std::string prelude() {
  static const std::string text =
      kHead + fill(kRoundings, {{"n", ""}}) + fill(kRoundings, {{"n", "16"}}) + kAccess + vectors();
  return text;
}

std::string storage(DType dtype) {
  DIF_CHECK(ops::is_number(dtype));
  return std::string(dtype_name(dtype));
}

std::string bits_type(std::size_t element_bytes) {
  switch (element_bytes) {
    case 1:
      return "uchar";
    case 2:
      return "ushort";
    case 4:
      return "uint";
    default:
      return "ulong";
  }
}

Status countable(const ir::OpView& op) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max() - 1024;
  for (std::size_t i = 0; i < op.n_ins(); ++i)
    if (op.in(i).numel() > kMost)
      return runtime::declined("{} has more elements than 32-bit indices count", op.in(i));
  for (std::size_t i = 0; i < op.n_outs(); ++i)
    if (op.out(i).numel() > kMost)
      return runtime::declined("{} has more elements than 32-bit indices count", op.out(i));
  return ok();
}

Status computable(const ir::OpView& op) {
  if (!ops::is_float(op.in(0).dtype)) return runtime::declined("no arithmetic on {}", op.in(0).dtype);
  return countable(op);
}

}  // namespace dif::opencl
