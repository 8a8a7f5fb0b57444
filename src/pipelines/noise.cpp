#include "pipelines/noise.h"

#include <array>
#include <bit>
#include <cmath>
#include <numbers>
#include <type_traits>

#include "base/check.h"
#include "base/error.h"
#include "base/float_convert.h"
#include "base/format.h"

namespace dif {

namespace {

constexpr std::size_t kBlock = 16;
constexpr std::size_t kHalf = kBlock / 2;

/// Natural logarithm of x in (0, 1], normal: Cephes logf with fused multiply-adds. Where both terms of a sum
/// are products, the one fused into the sum decides the last bit of one value in a thousand; the choices here
/// and in sincos_f32 are those of PyTorch's builds.
float log_f32(float x) {
  constexpr float kSqrtHalf = 0.707106781186547524F;
  constexpr std::array<float, 9> kP = {7.0376836292E-2F,  -1.1514610310E-1F, 1.1676998740E-1F,
                                       -1.2420140846E-1F, 1.4249322787E-1F,  -1.6668057665E-1F,
                                       2.0000714765E-1F,  -2.4999993993E-1F, 3.3333331174E-1F};
  constexpr float kLn2Low = -2.12194440E-4F;
  constexpr float kLn2High = 0.693359375F;

  const auto bits = std::bit_cast<std::uint32_t>(x);
  float exponent = static_cast<float>(static_cast<int>(bits >> 23) - 126);
  float m = std::bit_cast<float>((bits & 0x007fffffU) | 0x3f000000U);  // [0.5, 1)
  if (m < kSqrtHalf) {
    exponent -= 1.0F;
    m = (m - 1.0F) + m;
  } else {
    m -= 1.0F;
  }
  const float z = m * m;
  float y = kP[0];
  for (std::size_t i = 1; i < kP.size(); ++i) y = std::fma(y, m, kP[i]);
  y *= m;
  y = std::fma(y, z, exponent * kLn2Low);
  y = std::fma(-z, 0.5F, y);
  return std::fma(exponent, kLn2High, m + y);
}

struct SinCos {
  float sin;
  float cos;
};

/// Sine and cosine of x in [0, 2 pi]. Cephes sinf and cosf: octant, three-step reduction, two polynomials,
/// fused like log_f32.
SinCos sincos_f32(float x) {
  constexpr float kFourOverPi = 1.27323954473516F;
  constexpr float kPiOver4A = 0.78515625F;
  constexpr float kPiOver4B = 2.4187564849853515625E-4F;
  constexpr float kPiOver4C = 3.77489497744594108E-8F;

  const auto octant = (static_cast<std::uint32_t>(x * kFourOverPi) + 1U) & ~1U;
  const auto turns = static_cast<float>(octant);
  x = std::fma(turns, -kPiOver4A, x);
  x = std::fma(turns, -kPiOver4B, x);
  x = std::fma(turns, -kPiOver4C, x);
  const float z = x * x;

  float c = 2.443315711809948E-5F;
  c = std::fma(c, z, -1.388731625493765E-3F);
  c = std::fma(c, z, 4.166664568298827E-2F);
  c *= z;
  c = std::fma(c, z, -z * 0.5F) + 1.0F;

  float s = -1.9515295891E-4F;
  s = std::fma(s, z, 8.3321608736E-3F);
  s = std::fma(s, z, -1.6666654611E-1F);
  s *= z;
  s = std::fma(s, x, x);

  const bool swapped = (octant & 2U) != 0;
  float sine = swapped ? c : s;
  float cosine = swapped ? s : c;
  if ((octant & 4U) != 0) sine = -sine;
  if (((octant + 2U) & 4U) != 0) cosine = -cosine;
  return {sine, cosine};
}

/// What a dtype needs to be drawn: its storage, a uniform of [0, 1) from one 32-bit draw, and Box-Muller.
struct DrawF32 {
  using Storage = float;
  static float uniform(std::uint32_t draw) { return static_cast<float>(draw & 0xffffffU) * 0x1p-24F; }
  static void box_muller(float& a, float& b) {
    const float radius = std::sqrt(-2.0F * log_f32(1.0F - a));
    const SinCos angle = sincos_f32(static_cast<float>(2.0 * std::numbers::pi) * b);
    // "+ 0" is the mean; it turns -0 into +0.
    a = radius * angle.cos + 0.0F;
    b = radius * angle.sin + 0.0F;
  }
};

/// Box-Muller in a 16-bit format: every operation is computed wider and rounded. The arguments take only
/// 2^kBits values, over which f64 functions and correctly rounded f32 functions give the same 16-bit results.
template <int kBits, float (*kWiden)(std::uint16_t), std::uint16_t (*kNarrow)(float)>
struct Draw16 {
  using Storage = std::uint16_t;
  static float round(double value) { return kWiden(kNarrow(static_cast<float>(value))); }
  static std::uint16_t uniform(std::uint32_t draw) {
    return kNarrow(static_cast<float>(draw & ((1U << kBits) - 1U)) / static_cast<float>(1U << kBits));
  }
  static void box_muller(std::uint16_t& a, std::uint16_t& b) {
    const float u1 = round(1.0F - kWiden(a));
    const float radius = round(std::sqrt(round(-2.0F * round(std::log(static_cast<double>(u1))))));
    const float theta = round(2.0 * std::numbers::pi * static_cast<double>(kWiden(b)));
    const float cosine = round(std::cos(static_cast<double>(theta)));
    const float sine = round(std::sin(static_cast<double>(theta)));
    a = kNarrow(round(radius * cosine) + 0.0F);
    b = kNarrow(round(radius * sine) + 0.0F);
  }
};
using DrawBF16 = Draw16<8, bf16_to_f32, f32_to_bf16>;
using DrawF16 = Draw16<11, f16_to_f32, f32_to_f16>;

template <class Draw>
void box_muller_blocks(typename Draw::Storage* block, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i, block += kBlock)
    for (std::size_t j = 0; j < kHalf; ++j) Draw::box_muller(block[j], block[j + kHalf]);
}

#ifdef __x86_64__
/// The same bits, with instructions where the baseline calls a function for each fused multiply-add.
[[gnu::target("avx2,fma"), gnu::flatten]] void box_muller_blocks_fma(float* block, std::size_t count) {
  box_muller_blocks<DrawF32>(block, count);
}
#endif

template <class Draw>
void transform_blocks(typename Draw::Storage* block, std::size_t count) {
#ifdef __x86_64__
  if constexpr (std::is_same_v<Draw, DrawF32>)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
      return box_muller_blocks_fma(block, count);
#endif
  box_muller_blocks<Draw>(block, count);
}

template <class Draw>
void fill(std::mt19937& engine, std::span<typename Draw::Storage> out) {
  const auto draw_uniforms = [&](std::span<typename Draw::Storage> values) {
    for (auto& value : values) value = Draw::uniform(static_cast<std::uint32_t>(engine()));
  };
  draw_uniforms(out);
  transform_blocks<Draw>(out.data(), out.size() / kBlock);
  if (out.size() % kBlock != 0) {
    const auto tail = out.last(kBlock);
    draw_uniforms(tail);
    transform_blocks<Draw>(tail.data(), 1);
  }
}

}  // namespace

TorchCpuGenerator::TorchCpuGenerator(std::uint64_t seed) : engine_(static_cast<std::uint32_t>(seed)) {}

double TorchCpuGenerator::next_f64() {
  if (waiting_) {
    const double value = *waiting_;
    waiting_.reset();
    return value;
  }
  const auto uniform = [&] {
    const auto high = static_cast<std::uint64_t>(engine_());
    const auto low = static_cast<std::uint64_t>(engine_());
    return static_cast<double>(((high << 32) | low) & ((std::uint64_t{1} << 53) - 1)) * 0x1p-53;
  };
  const double u1 = uniform();
  const double u2 = uniform();
  const double radius = std::sqrt(-2.0 * std::log1p(-u2));
  const double theta = 2.0 * std::numbers::pi * u1;
  waiting_ = radius * std::sin(theta);
  return radius * std::cos(theta) + 0.0;
}

void TorchCpuGenerator::normal_f32(std::span<float> out) {
  if (out.size() >= kBlock) return fill<DrawF32>(engine_, out);
  for (float& value : out) value = static_cast<float>(next_f64());
}

void TorchCpuGenerator::normal_bf16(std::span<std::uint16_t> out) {
  if (out.size() >= kBlock) return fill<DrawBF16>(engine_, out);
  for (auto& value : out) value = f32_to_bf16(static_cast<float>(next_f64()));
}

void TorchCpuGenerator::normal_f16(std::span<std::uint16_t> out) {
  if (out.size() >= kBlock) return fill<DrawF16>(engine_, out);
  for (auto& value : out) value = f32_to_f16(static_cast<float>(next_f64()));
}

Status TorchCpuGenerator::normal(DType dtype, std::span<std::byte> out) {
  DIF_CHECK(out.size() % dtype_size(dtype) == 0);
  DIF_CHECK(reinterpret_cast<std::uintptr_t>(out.data()) % dtype_size(dtype) == 0);
  const std::size_t count = out.size() / dtype_size(dtype);
  switch (dtype) {
    case DType::kF32:
      normal_f32({reinterpret_cast<float*>(out.data()), count});
      return ok();
    case DType::kBF16:
      normal_bf16({reinterpret_cast<std::uint16_t*>(out.data()), count});
      return ok();
    case DType::kF16:
      normal_f16({reinterpret_cast<std::uint16_t*>(out.data()), count});
      return ok();
    default:
      return invalid_input("noise can be drawn in f32, bf16 or f16, not in {}", dtype);
  }
}

}  // namespace dif
