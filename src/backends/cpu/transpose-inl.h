// Transposition of small squares: included once per instruction set.
#if defined(DIF_CPU_TRANSPOSE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DIF_CPU_TRANSPOSE_INL_H_
#undef DIF_CPU_TRANSPOSE_INL_H_
#else
#define DIF_CPU_TRANSPOSE_INL_H_
#endif

#include "backends/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dif::cpu::HWY_NAMESPACE {

/// The transpose of the rows a, b, c, d, in place.
template <class V>
HWY_INLINE void transpose4(V& a, V& b, V& c, V& d) {
  const hn::FixedTag<float, 4> f;
  const hn::FixedTag<double, 2> f64;
  const auto pairs = [&](V x, V y) { return hn::BitCast(f64, hn::InterleaveLower(f, x, y)); };
  const auto upper = [&](V x, V y) { return hn::BitCast(f64, hn::InterleaveUpper(f, x, y)); };
  const auto ab = pairs(a, b), cd = pairs(c, d), ab_upper = upper(a, b), cd_upper = upper(c, d);
  a = hn::BitCast(f, hn::InterleaveLower(f64, ab, cd));
  b = hn::BitCast(f, hn::InterleaveUpper(f64, ab, cd));
  c = hn::BitCast(f, hn::InterleaveLower(f64, ab_upper, cd_upper));
  d = hn::BitCast(f, hn::InterleaveUpper(f64, ab_upper, cd_upper));
}

/// y[j * y_stride + i] = x[i * x_stride + j] for i, j < 4, rounded to the type of y.
template <class X, class Y>
HWY_INLINE void transpose4(const X* x, std::int64_t x_stride, Y* y, std::int64_t y_stride) {
  const hn::FixedTag<float, 4> f;
  auto a = load(f, x), b = load(f, x + x_stride), c = load(f, x + 2 * x_stride),
       d = load(f, x + 3 * x_stride);
  transpose4(a, b, c, d);
  store(f, a, y);
  store(f, b, y + y_stride);
  store(f, c, y + 2 * y_stride);
  store(f, d, y + 3 * y_stride);
}

/// y[j * y_stride + i] = x[i * x_stride + j] for i, j < 8: three perfect shuffles of the 64 elements.
HWY_INLINE void transpose8(const std::uint16_t* x, std::int64_t x_stride, std::uint16_t* y,
                           std::int64_t y_stride) {
  const hn::FixedTag<std::uint16_t, 8> d;
  using V = hn::Vec<decltype(d)>;
  V rows[8], shuffled[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) rows[i] = hn::LoadU(d, x + i * x_stride);
#pragma GCC unroll 3
  for (int round = 0; round < 3; ++round) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      shuffled[2 * i] = hn::InterleaveLower(d, rows[i], rows[i + 4]);
      shuffled[2 * i + 1] = hn::InterleaveUpper(d, rows[i], rows[i + 4]);
    }
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) rows[i] = shuffled[i];
  }
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) hn::StoreU(rows[i], d, y + i * y_stride);
}

}  // namespace dif::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
