#include "backends/cpu/pointwise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/silu/silu.cpu.cpp"
#include "hwy/foreach_target.h"

#include "backends/cpu/pointwise-inl.h"
#include "backends/cpu/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dif::cpu::HWY_NAMESPACE {

/// x / (1 + e^-x) where nothing overflows: |x| < kModest. Relative error below 2.2e-7.
constexpr float kModest = 86;
HWY_INLINE VF modest_silu(VF x) {
  const F d;
  const hn::RebindToSigned<F> di;
  const VF to_integer = hn::Set(d, 0x1.8p23f);  // its sum with a small number ends in the nearest integer
  const VF shifted = hn::MulAdd(x, hn::Set(d, -kLog2E), to_integer);
  const VF p = exp_of_rest(d, hn::Neg(x), hn::Sub(shifted, to_integer));
  const auto exponent = hn::ShiftLeft<23>(hn::BitCast(di, shifted));
  const VF e = hn::BitCast(d, hn::Add(hn::BitCast(di, p), exponent));
  return hn::Div(x, hn::Add(hn::Set(d, 1.0f), e));
}

/// The same for any x.
HWY_INLINE VF any_silu(VF x) {
  const F d;
  // In terms of e = exp(-|x|), which cannot overflow: x e / (1 + e) below zero. There x is multiplied in
  // before the power of two, since e may be too small for f32 where the result is not.
  const VF least = hn::Set(d, -104.0f);
  const VF t = hn::Neg(hn::Abs(x));
  const ExpParts parts = exp_parts(d, hn::IfThenElse(hn::Lt(t, least), least, t));
  const VF e = times_power_of_two(d, parts.fraction, parts.exponent);
  // Zero where it underflows, but NaN for minus infinity.
  const VF fraction = hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -110.0f)), parts.fraction);
  const VF negative = times_power_of_two(d, hn::Mul(x, fraction), parts.exponent);
  return hn::Div(hn::IfThenElse(hn::Lt(x, hn::Zero(d)), negative, x), hn::Add(hn::Set(d, 1.0f), e));
}

template <class T>
HWY_INLINE VF silu_of(VF x) {
  const auto is_modest = hn::Lt(hn::Abs(x), hn::Set(F(), kModest));
  const VF modest = modest_silu(x);
  if (HWY_LIKELY(hn::AllTrue(F(), is_modest))) return modest;
  return hn::IfThenElse(is_modest, modest,
                        any_silu(x));  // the bits of an element do not depend on its neighbours
}

#if HWY_TARGET <= HWY_AVX3
/// x / (1 + 2^(-x log2 e)) for results that are rounded to 8 bits: relative error below 4e-6, most of it from
/// the polynomial of degree 4 for the fraction's power (2.6e-6), and zero below x = -88.7. Infinities and NaN
/// need no care: the fraction of an infinity is zero and its power of two has the right limit.
template <>
HWY_INLINE VF silu_of<Bf16>(VF x) {
  const F d;
  const VF y = hn::Mul(x, hn::Set(d, -0x1.715476p+0f));
  const VF f = VF{_mm512_reduce_ps(y.raw, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)};
  VF p = hn::Set(d, 0x1.bb7cd4p-7f);
  p = hn::MulAdd(p, f, hn::Set(d, 0x1.aa13f0p-5f));
  p = hn::MulAdd(p, f, hn::Set(d, 0x1.ee798ap-3f));
  p = hn::MulAdd(p, f, hn::Set(d, 0x1.62d166p-1f));
  p = hn::MulAdd(p, f, hn::Set(d, 0x1.00002cp+0f));
  const VF e = VF{_mm512_scalef_ps(p.raw, y.raw)};  // by floor(y)
  return hn::Div(x, hn::Add(hn::Set(d, 1.0f), e));
}
#endif

static void silu_block(const PointwiseBlock& block) {
  with_storage(block.dtype, [&]<class T>(T) { map_block(block, [](VF x) { return silu_of<T>(x); }); });
}

static void silu_rows(const RowBlock& block) {
  with_storage(block.operation->dtype,
               [&]<class T>(T) { map_rows(block, [](VF x) { return silu_of<T>(x); }); });
}

}  // namespace dif::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dif::cpu {

HWY_EXPORT(silu_block);
HWY_EXPORT(silu_rows);

MakeResult make_silu(const KernelRequest& request) {
  return make_pointwise(request, HWY_DYNAMIC_DISPATCH(silu_block));
}

RowFunction rows_of_silu() {
  return HWY_DYNAMIC_DISPATCH(silu_rows);
}

}  // namespace dif::cpu
#endif
