#include "backends/cpu/pointwise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/sqrt/sqrt.cpu.cpp"
#include "hwy/foreach_target.h"

#include "backends/cpu/pointwise-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dif::cpu::HWY_NAMESPACE {

static void sqrt_block(const PointwiseBlock& block) {
  map_block(block, [](VF x) { return hn::Sqrt(x); });
}

}  // namespace dif::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dif::cpu {

HWY_EXPORT(sqrt_block);

MakeResult make_sqrt(const KernelRequest& request) {
  return make_pointwise(request, HWY_DYNAMIC_DISPATCH(sqrt_block));
}

}  // namespace dif::cpu
#endif
