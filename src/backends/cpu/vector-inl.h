// Vectors of f32 over any storage dtype, and exponentials: included once per instruction set.
#if defined(DIF_CPU_VECTOR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DIF_CPU_VECTOR_INL_H_
#undef DIF_CPU_VECTOR_INL_H_
#else
#define DIF_CPU_VECTOR_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "backends/cpu/storage.h"
#include "backends/cpu/traffic.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace dif::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F = hn::ScalableTag<float>;
using VF = hn::Vec<F>;
inline constexpr std::size_t kLanes = hn::MaxLanes(F());

// D below is any tag of f32 lanes, F unless a kernel wants narrower vectors.

template <class D>
HWY_INLINE hn::Vec<D> load(D d, const float* p) {
  return hn::LoadU(d, p);
}

template <class D>
HWY_INLINE hn::Vec<D> load(D d, const Bf16* p) {
  const hn::Rebind<std::uint16_t, D> d16;
  const hn::RebindToUnsigned<D> d32;
  const auto bits = hn::LoadU(d16, reinterpret_cast<const std::uint16_t*>(p));
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(d32, bits)));
}

template <class D>
HWY_INLINE hn::Vec<D> load(D d, const F16* p) {
#if HWY_TARGET <= HWY_AVX2
  const hn::Rebind<hwy::float16_t, D> d16;
  return hn::PromoteTo(d, hn::LoadU(d16, reinterpret_cast<const hwy::float16_t*>(p)));
#else
  HWY_ALIGN float lanes[hn::MaxLanes(D())];
  for (std::size_t i = 0; i < hn::MaxLanes(D()); ++i) lanes[i] = to_f32(p[i]);
  return hn::Load(d, lanes);
#endif
}

template <class D>
HWY_INLINE void store(D d, hn::Vec<D> v, float* p) {
  hn::StoreU(v, d, p);
}

/// v rounded to the nearest bf16, ties to even: the high half of each lane. NaN stays NaN.
template <class D>
HWY_INLINE hn::Vec<D> rounded_to_bf16(D d, hn::Vec<D> v) {
  const hn::RebindToUnsigned<D> d32;
  const auto bits = hn::BitCast(d32, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d32, 1));
  const auto up = hn::Add(bits, hn::Add(odd, hn::Set(d32, 0x7fff)));
  const auto nan = hn::Or(bits, hn::Set(d32, 0x400000));
  const auto chosen = hn::IfThenElse(hn::RebindMask(d32, hn::IsNaN(v)), nan, up);
  return hn::BitCast(d, hn::And(chosen, hn::Set(d32, 0xffff0000)));
}

template <class D>
HWY_INLINE void store(D d, hn::Vec<D> v, Bf16* p) {
  const hn::RebindToUnsigned<D> d32;
  const hn::RebindToSigned<D> d32s;
  const hn::Rebind<std::uint16_t, D> d16;
  const auto high = hn::ShiftRight<16>(hn::BitCast(d32, rounded_to_bf16(d, v)));
  hn::StoreU(hn::DemoteTo(d16, hn::BitCast(d32s, high)), d16, reinterpret_cast<std::uint16_t*>(p));
}

template <class D>
HWY_INLINE void store(D d, hn::Vec<D> v, F16* p) {
#if HWY_TARGET <= HWY_AVX2
  const hn::Rebind<hwy::float16_t, D> d16;
  hn::StoreU(hn::DemoteTo(d16, v), d16, reinterpret_cast<hwy::float16_t*>(p));
  (void)d;
#else
  HWY_ALIGN float lanes[hn::MaxLanes(D())];
  hn::Store(v, d, lanes);
  for (std::size_t i = 0; i < hn::MaxLanes(D()); ++i) round_to(lanes[i], p[i]);
#endif
}

/// 2 * kLanes neighbours. Of bf16 `a` has those of even index and `b` those of odd index, since a lane of
/// memory holds two of them: they come and go in the fewest instructions. Of other types `a` has the first
/// half.
struct Two {
  VF a, b;
};

template <class T>
HWY_INLINE Two load_two(F d, const T* p) {
  return {load(d, p), load(d, p + kLanes)};
}

HWY_INLINE Two load_two(F d, const Bf16* p) {
  const hn::RebindToUnsigned<F> d32;
  const hn::Repartition<std::uint16_t, F> d16;
  const auto both = hn::BitCast(d32, hn::LoadU(d16, reinterpret_cast<const std::uint16_t*>(p)));
  return {hn::BitCast(d, hn::ShiftLeft<16>(both)), hn::BitCast(d, hn::And(both, hn::Set(d32, 0xffff0000)))};
}

/// v where it is aligned to its size. Pre of kPastCaches: p is aligned to a line of the caches, or the next
/// vectors fill up its line.
template <bool kPastCaches, class D>
HWY_INLINE void put(D d, hn::Vec<D> v, hn::TFromD<D>* p) {
  if constexpr (kPastCaches) {
    hn::Stream(v, d, p);
  } else {
    hn::StoreU(v, d, p);
  }
}

/// What NaN among lanes that are rounded to bf16 may be.
enum class Nan {
  kAny,
  kOfBf16,  ///< arithmetic on bf16 and numbers made it: the low half is zero, and rounding leaves it as it is
};

template <bool kPastCaches = false, Nan = Nan::kAny, class T>
HWY_INLINE void store_two(F d, Two v, T* p) {
  static_assert(!kPastCaches || std::is_same_v<T, float>);
  if constexpr (kPastCaches) {
    put<true>(d, v.a, p);
    put<true>(d, v.b, p + kLanes);
  } else {
    store(d, v.a, p);
    store(d, v.b, p + kLanes);
  }
}

template <bool kPastCaches = false, Nan kNan = Nan::kAny>
HWY_INLINE void store_two(F d, Two v, Bf16* p) {
  const hn::RebindToUnsigned<F> d32;
  const hn::Repartition<std::uint16_t, F> d16;
  const auto rounded_up = [&](VF lanes) {
    // Half of the last place that stays, less one; a tie goes up where that place is odd.
    const auto bits = hn::BitCast(d32, lanes);
    return hn::Add(hn::OrAnd(bits, hn::ShiftRight<16>(bits), hn::Set(d32, 1)), hn::Set(d32, 0x7fff));
  };
  auto even = rounded_up(v.a), odd = rounded_up(v.b);
  if constexpr (kNan == Nan::kAny) {
    // One question for both. The sum of two infinities may be NaN as well: then this rounds the same again.
    if (HWY_UNLIKELY(!hn::AllFalse(d, hn::IsNaN(hn::Add(v.a, v.b))))) {
      even = hn::BitCast(d32, rounded_to_bf16(d, v.a));
      odd = hn::BitCast(d32, rounded_to_bf16(d, v.b));
    }
  }
  const auto both = hn::OrAnd(hn::ShiftRight<16>(even), odd, hn::Set(d32, 0xffff0000));
  put<kPastCaches>(d16, hn::BitCast(d16, both), reinterpret_cast<std::uint16_t*>(p));
}

/// The first n < kLanes elements, zeros behind them.
template <class T>
HWY_INLINE VF load_n(F d, const T* p, std::size_t n) {
  HWY_ALIGN T lanes[kLanes] = {};
  std::memcpy(lanes, p, n * sizeof(T));
  return load(d, lanes);
}

template <class T>
HWY_INLINE void store_n(F d, VF v, T* p, std::size_t n) {
  HWY_ALIGN T lanes[kLanes];
  store(d, v, lanes);
  std::memcpy(p, lanes, n * sizeof(T));
}

/// y[i] = f(x[i]...) for i < n, where f maps vectors of f32 lane by lane; one rounding to the type of y. Of f
/// is asked that on bf16 alone it computes with those and with numbers, not with NaN of its own. With
/// kPastCaches y is written past the caches where it begins at a line of theirs: finish_stream()
/// (stream_out.h) comes after. Of 2 * kLanes neighbours each beside() is called once.
template <bool kPastCaches, class Y, class Function, class Beside, class... X>
HWY_INLINE void map_beside(std::size_t n, Y* HWY_RESTRICT y, Function f, Beside beside,
                           const X* HWY_RESTRICT... x) {
  const F d;
  std::size_t i = 0;
  constexpr bool is_bf16 = std::is_same_v<Y, Bf16>;
  if constexpr (((std::is_same_v<X, Bf16> == is_bf16) && ...)) {
    constexpr Nan kNan = is_bf16 ? Nan::kOfBf16 : Nan::kAny;
    const auto of_two = [&f](auto... v) { return Two{f(v.a...), f(v.b...)}; };
    if constexpr (kPastCaches && !std::is_same_v<Y, F16>) {
      if (reinterpret_cast<std::uintptr_t>(y) % 64 == 0)
        for (; i + 2 * kLanes <= n; i += 2 * kLanes, beside())
          store_two<true, kNan>(d, of_two(load_two(d, x + i)...), y + i);
    }
    for (; i + 2 * kLanes <= n; i += 2 * kLanes, beside())
      store_two<false, kNan>(d, of_two(load_two(d, x + i)...), y + i);
  }
  for (; i + kLanes <= n; i += kLanes) store(d, f(load(d, x + i)...), y + i);
  if (i < n) store_n(d, f(load_n(d, x + i, n - i)...), y + i, n - i);
}

template <bool kPastCaches = false, class Y, class Function, class... X>
HWY_INLINE void map(std::size_t n, Y* y, Function f, const X*... x) {
  map_beside<kPastCaches>(
      n, y, f, [] {}, x...);
}

HWY_INLINE void fetch_lines(const std::byte* p, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; i += 64) __builtin_prefetch(p + i, 0, 2);
}

/// As above, with what is to be done for memory beside.
template <class Y, class Function, class... X>
HWY_INLINE void map_out(const Traffic& traffic, std::size_t n, Y* y, Function f, const X*... x) {
  if (traffic.fetch_bytes != 0 && n >= 2 * kLanes) {
    const std::byte* at = traffic.fetch;
    const std::size_t step = traffic.fetch_bytes / (n / (2 * kLanes));
    const auto fetch = [&] {
      fetch_lines(at, step);
      at += step;
    };
    if (traffic.past_caches) {
      map_beside<true>(n, y, f, fetch, x...);
    } else {
      map_beside<false>(n, y, f, fetch, x...);
    }
  } else if (traffic.past_caches) {
    map<true>(n, y, f, x...);
  } else {
    map<false>(n, y, f, x...);
  }
}

/// Adding this rounds to the nearest integer n and leaves n + 127 in the low bits of the sum: a shift by 23
/// makes 2^n of it, if -126 <= n <= 127. Whatever it makes of NaN is multiplied with NaN.
inline constexpr float kRoundToExponent = 0x1.8p23f + 127.0f;

/// 2^x for x <= 0 or NaN; zero below 2^-126. Relative error below 2e-7 (2 ulp): |x - round(x)| <= 1/2, and a
/// polynomial of degree 6 with the least greatest relative error there (2.1e-8 with these f32 coefficients).
HWY_INLINE VF exp2_nonpositive(F d, VF x) {
  const hn::RebindToSigned<F> di;
  const VF shifted = hn::Add(x, hn::Set(d, kRoundToExponent));
  const VF f = hn::Sub(x, hn::Sub(shifted, hn::Set(d, kRoundToExponent)));
  VF p = hn::Set(d, 0x1.470bb8p-13f);
  p = hn::MulAdd(p, f, hn::Set(d, 0x1.5f72acp-10f));
  p = hn::MulAdd(p, f, hn::Set(d, 0x1.3b270ep-7f));
  p = hn::MulAdd(p, f, hn::Set(d, 0x1.c6ae72p-5f));
  p = hn::MulAdd(p, f, hn::Set(d, 0x1.ebfbe2p-3f));
  p = hn::MulAdd(p, f, hn::Set(d, 0x1.62e432p-1f));
  p = hn::MulAdd(p, f, hn::Set(d, 1.0f));
  const VF power = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(di, shifted)));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -126.0f)), hn::Mul(p, power));
}

/// v * 2^n, rounded once more where the result is subnormal. Pre: n is an integer, -252 <= n <= 0.
HWY_INLINE VF times_power_of_two(F d, VF v, VF n) {
#if HWY_TARGET <= HWY_AVX3
  (void)d;
  return VF{_mm512_scalef_ps(v.raw, n.raw)};
#else
  const hn::RebindToSigned<F> di;
  const auto k = hn::ConvertTo(di, n), half = hn::ShiftRight<1>(k);
  const auto power = [&](hn::Vec<decltype(di)> exponent) {  // a normal number even where 2^n is not
    return hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(exponent, hn::Set(di, 127))));
  };
  return hn::Mul(hn::Mul(v, power(half)), power(hn::Sub(k, half)));
#endif
}

inline constexpr float kLog2E = 0x1.715476p+0f;

/// e^(x - n ln 2), where n is x / ln 2 to the nearest integer, |n| < 256. ln 2 is subtracted in two parts,
/// and the polynomial of degree 6 has a relative error of 3.8e-9.
HWY_INLINE VF exp_of_rest(F d, VF x, VF n) {
  VF r = hn::NegMulAdd(n, hn::Set(d, 0x1.62e4p-1f), x);  // n * 0x1.62e4p-1 is exact
  r = hn::NegMulAdd(n, hn::Set(d, 0x1.7f7d1cp-20f), r);
  VF p = hn::Set(d, 0x1.6a2434p-10f);
  p = hn::MulAdd(p, r, hn::Set(d, 0x1.1239e2p-7f));
  p = hn::MulAdd(p, r, hn::Set(d, 0x1.5558f2p-5f));
  p = hn::MulAdd(p, r, hn::Set(d, 0x1.555492p-3f));
  p = hn::MulAdd(p, r, hn::Set(d, 0x1.fffffcp-2f));
  return hn::MulAdd(hn::Mul(r, r), p, hn::Add(r, hn::Set(d, 1.0f)));
}

/// e^x = fraction * 2^exponent.
struct ExpParts {
  VF fraction, exponent;
};

/// Pre: -104 <= x <= 0 or NaN. The product has a relative error below 1.2e-7 (about 1 ulp) where it is
/// normal.
HWY_INLINE ExpParts exp_parts(F d, VF x) {
  const VF n = hn::Round(hn::Mul(x, hn::Set(d, kLog2E)));
  return {exp_of_rest(d, x, n), n};
}

}  // namespace dif::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
