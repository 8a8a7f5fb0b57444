#include "backends/cpu/pointwise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/silu/silu.cpu.cpp"
#include "hwy/foreach_target.h"

#include "backends/cpu/pointwise-inl.h"
#include "backends/cpu/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dif::cpu::HWY_NAMESPACE {

static HWY_INLINE VF silu_of(VF x) {
  const F d;
  // In terms of e = exp(-|x|), which cannot overflow: x e / (1 + e) below zero. There x is multiplied in
  // before the powers of two, since e may be too small for f32 where the result is not.
  const VF least = hn::Set(d, -104.0f);
  const VF t = hn::Neg(hn::Abs(x));
  const ExpParts parts = exp_parts(d, hn::IfThenElse(hn::Lt(t, least), least, t));
  const VF e = hn::Mul(hn::Mul(parts.fraction, parts.first), parts.second);
  // Zero where it underflows, but NaN for minus infinity.
  const VF second = hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -110.0f)), parts.second);
  const VF negative = hn::Mul(hn::Mul(hn::Mul(x, parts.fraction), parts.first), second);
  return hn::Div(hn::IfThenElse(hn::Lt(x, hn::Zero(d)), negative, x), hn::Add(hn::Set(d, 1.0f), e));
}

static void silu_block(const PointwiseBlock& block) {
  map_block(block, [](VF x) { return silu_of(x); });
}

static void silu_rows(const RowBlock& block) {
  map_rows(block, [](VF x) { return silu_of(x); });
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
