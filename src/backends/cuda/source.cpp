#include "backends/cuda/source.h"

#include "base/check.h"
#include "ops/common/checks.h"
#include "runtime/kernel.h"

namespace dif::cuda {

namespace {

constexpr const char* kPrelude = R"(
typedef long long Index;
struct bf16 { unsigned short bits; };
struct f16 { unsigned short bits; };
#define INFINITE __int_as_float(0x7f800000)

inline float decode(float v) { return v; }
inline int decode(int v) { return v; }
inline float decode(bf16 v) { return __uint_as_float((unsigned)v.bits << 16); }
inline float decode(f16 v) {
  float result;
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(v.bits));
  return result;
}
template <class T> struct Encode;
template <> struct Encode<float> { static float of(float v) { return v; } };
template <> struct Encode<int> { static int of(int v) { return v; } };
template <> struct Encode<bf16> {
  static bf16 of(float v) {
    bf16 result;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result.bits) : "f"(v));
    return result;
  }
};
template <> struct Encode<f16> {
  static f16 of(float v) {
    f16 result;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result.bits) : "f"(v));
    return result;
  }
};
template <class T, class V> inline T encode(V v) { return Encode<T>::of(v); }
template <class T> inline void round_two(float& a, float& b) {
  a = decode(encode<T>(a));
  b = decode(encode<T>(b));
}
template <> inline void round_two<bf16>(float& a, float& b) {
  unsigned both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(b), "f"(a));
  a = __uint_as_float(both << 16);
  b = __uint_as_float(both & 0xffff0000u);
}
template <> inline void round_two<f16>(float& a, float& b) {
  unsigned both;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(b), "f"(a));
  a = decode(f16{(unsigned short)both});
  b = decode(f16{(unsigned short)(both >> 16)});
}
template <class T, int V> inline void round_all(float (&v)[V]) {
#pragma unroll
  for (int j = 0; j + 1 < V; j += 2) round_two<T>(v[j], v[j + 1]);
  if (V % 2 != 0) v[V - 1] = decode(encode<T>(v[V - 1]));
}

template <int kBytes> struct Unit;
template <> struct Unit<1> { typedef unsigned char type; };
template <> struct Unit<2> { typedef unsigned short type; };
template <> struct Unit<4> { typedef unsigned type; };
template <> struct Unit<8> { typedef uint2 type; };
template <> struct Unit<16> { typedef uint4 type; };
template <int V, class T> inline void load(const T* p, T* v) {
  constexpr int bytes = V * (int)sizeof(T), unit = bytes < 16 ? bytes : 16;
  typedef typename Unit<unit>::type U;
#pragma unroll
  for (int k = 0; k < bytes / unit; ++k) ((U*)v)[k] = ((const U*)p)[k];
}
template <int V, class T> inline void store(T* p, const T* v) {
  constexpr int bytes = V * (int)sizeof(T), unit = bytes < 16 ? bytes : 16;
  typedef typename Unit<unit>::type U;
#pragma unroll
  for (int k = 0; k < bytes / unit; ++k) ((U*)p)[k] = ((const U*)v)[k];
}

inline float quick_exp(float v) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(v * 1.44269504f));
  return result;
}
inline float quick_reciprocal(float v) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(v));
  return result;
}

inline float warp_sum(float v) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) v += __shfl_xor_sync(0xffffffffu, v, step);
  return v;
}
inline float warp_max(float v) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, step));
  return v;
}
// Every thread gets the sum over `lanes` neighbours, a power of two; all of these call it.
template <int lanes> inline float lanes_sum(float v) {
  const unsigned mask = lanes == 32 ? 0xffffffffu : ((1u << (lanes % 32)) - 1) << (threadIdx.x % 32 / lanes * lanes);
#pragma unroll
  for (int step = lanes / 2; step > 0; step /= 2) v += __shfl_xor_sync(mask, v, step);
  return v;
}
// Every thread gets the sum over the block; all of them call it. Nothing else uses the scratch before.
inline float block_sum_apart(float v, float* scratch) {
  v = warp_sum(v);
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = v;
  __syncthreads();
  float sum = 0;
  for (int w = 0; w < (int)blockDim.x / 32; ++w) sum += scratch[w];
  return sum;
}
inline float block_sum(float v, float* scratch) {
  v = warp_sum(v);
  __syncthreads();
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = v;
  __syncthreads();
  float sum = 0;
  for (int w = 0; w < (int)blockDim.x / 32; ++w) sum += scratch[w];
  return sum;
}
)";

}  // namespace

std::string prelude() {
  return kPrelude;
}

std::string type_name(DType dtype) {
  DIF_CHECK(ops::is_number(dtype));
  if (dtype == DType::kF32) return "float";
  return dtype == DType::kI32 ? "int" : std::string(dtype_name(dtype));
}

std::string bits_type(std::int64_t bytes) {
  switch (bytes) {
    case 1:
      return "unsigned char";
    case 2:
      return "unsigned short";
    case 4:
      return "unsigned";
    case 8:
      return "uint2";
    default:
      DIF_CHECK(bytes == 16);
      return "uint4";
  }
}

Status computable(const ir::OpView& op) {
  if (!ops::is_float(op.in(0).dtype)) return runtime::declined("no arithmetic on {}", op.in(0).dtype);
  return ok();
}

}  // namespace dif::cuda
