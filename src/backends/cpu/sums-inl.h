// Sums over a run of elements, in an order fixed by its length: included once per instruction set.
#if defined(DIF_CPU_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DIF_CPU_SUMS_INL_H_
#undef DIF_CPU_SUMS_INL_H_
#else
#define DIF_CPU_SUMS_INL_H_
#endif

#include "backends/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dif::cpu::HWY_NAMESPACE {

/// Sum of f(x[i]) over i < n, in four vectors of partial sums. Pre: the run is short enough (some ten
/// thousand elements) that f32 partial sums lose nothing that matters.
template <class T, class Function>
HWY_INLINE float sum_of(const T* HWY_RESTRICT x, std::size_t n, Function f) {
  const F d;
  VF s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  std::size_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    const Two first = load_two(d, x + i), second = load_two(d, x + i + 2 * kLanes);
    s0 = hn::Add(s0, f(first.a));
    s1 = hn::Add(s1, f(first.b));
    s2 = hn::Add(s2, f(second.a));
    s3 = hn::Add(s3, f(second.b));
  }
  for (; i + kLanes <= n; i += kLanes) s0 = hn::Add(s0, f(load(d, x + i)));
  if (i < n) {
    const auto valid = hn::FirstN(d, n - i);
    s1 = hn::Add(s1, hn::IfThenElseZero(valid, f(load_n(d, x + i, n - i))));
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
}

template <class T>
HWY_INLINE float sum(const T* x, std::size_t n) {
  return sum_of(x, n, [](VF v) { return v; });
}

template <class T>
HWY_INLINE float sum_of_squares(const T* x, std::size_t n) {
  return sum_of(x, n, [](VF v) { return hn::Mul(v, v); });
}

struct Moments {
  double mean, squares;  ///< squares: the sum of (x[i] - mean)^2
};

/// In two passes; the second one also sums x - mean, which takes off again what rounding put into the mean.
/// Pre: as for sum_of.
template <class T>
HWY_INLINE Moments moments(const T* HWY_RESTRICT x, std::size_t n) {
  const F d;
  const double count = static_cast<double>(n);
  const auto about = static_cast<float>(static_cast<double>(sum(x, n)) / count);
  const VF center = hn::Set(d, about);
  VF s0 = hn::Zero(d), s1 = s0, q0 = s0, q1 = s0;
  std::size_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    const Two two = load_two(d, x + i);
    const VF a = hn::Sub(two.a, center), b = hn::Sub(two.b, center);
    s0 = hn::Add(s0, a);
    s1 = hn::Add(s1, b);
    q0 = hn::MulAdd(a, a, q0);
    q1 = hn::MulAdd(b, b, q1);
  }
  for (; i < n; i += kLanes) {
    const std::size_t left = n - i;
    const VF v = left >= kLanes ? load(d, x + i) : load_n(d, x + i, left);
    const VF a = hn::IfThenElseZero(hn::FirstN(d, left), hn::Sub(v, center));
    s0 = hn::Add(s0, a);
    q0 = hn::MulAdd(a, a, q0);
  }
  const double off = static_cast<double>(hn::GetLane(hn::SumOfLanes(d, hn::Add(s0, s1)))) / count;
  const double squares = static_cast<double>(hn::GetLane(hn::SumOfLanes(d, hn::Add(q0, q1))));
  return {static_cast<double>(about) + off, squares - count * off * off};
}

/// (x - mean) * scale, where the mean is more exact than f32.
struct Normalise {
  Normalise(double mean, float scale_)
      : center(hn::Set(F(), static_cast<float>(mean))),
        rest(hn::Set(F(), static_cast<float>(mean - static_cast<double>(static_cast<float>(mean))))),
        scale(hn::Set(F(), scale_)) {}
  HWY_INLINE VF operator()(VF x) const { return hn::Mul(hn::Sub(hn::Sub(x, center), rest), scale); }

  VF center, rest, scale;
};

}  // namespace dif::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
