#include "backends/cpu/broadcast.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/mul/mul.cpu.cpp"
#include "hwy/foreach_target.h"

#include "backends/cpu/broadcast-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dif::cpu::HWY_NAMESPACE {

static void mul_block(const BroadcastBlock& block) {
  broadcast_block(block, [](VF x, VF y) { return hn::Mul(x, y); });
}

}  // namespace dif::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dif::cpu {

HWY_EXPORT(mul_block);

MakeResult make_mul(const KernelRequest& request) {
  return make_broadcast(request, HWY_DYNAMIC_DISPATCH(mul_block));
}

}  // namespace dif::cpu
#endif
