#include "backends/cpu/pointwise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/silu/silu.cpu.cpp"
#include "hwy/foreach_target.h"
#include "backends/cpu/pointwise-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dif::cpu::HWY_NAMESPACE {

static void silu_block(const PointwiseBlock& block) {
  map_block(block, [](VF x) {
    const F d;
    // In terms of exp(-|x|), which cannot overflow: x e^x / (1 + e^x) below zero.
    const VF e = exp_nonpositive(d, hn::Neg(hn::Abs(x)));
    const VF numerator = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Mul(x, e), x);
    return hn::Div(numerator, hn::Add(hn::Set(d, 1.0f), e));
  });
}

}  // namespace dif::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dif::cpu {

HWY_EXPORT(silu_block);

MakeResult make_silu(const KernelRequest& request) {
  return make_pointwise(request, HWY_DYNAMIC_DISPATCH(silu_block));
}

}  // namespace dif::cpu
#endif
