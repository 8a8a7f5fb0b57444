#include "backends/cpu/broadcast.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/mul/mul.cpu.cpp"
#include "hwy/foreach_target.h"

#include "backends/cpu/broadcast-inl.h"
#include "backends/cpu/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dif::cpu::HWY_NAMESPACE {

static void mul_block(const BroadcastBlock& block) {
  broadcast_block(block, [](VF x, VF y) { return hn::Mul(x, y); });
}

static void mul_rows(const RowBlock& block) {
  broadcast_rows(block, [](VF x, VF y) { return hn::Mul(x, y); });
}

}  // namespace dif::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dif::cpu {

HWY_EXPORT(mul_block);
HWY_EXPORT(mul_rows);

MakeResult make_mul(const KernelRequest& request) {
  return make_broadcast(request, HWY_DYNAMIC_DISPATCH(mul_block));
}

RowFunction rows_of_mul() {
  return HWY_DYNAMIC_DISPATCH(mul_rows);
}

}  // namespace dif::cpu
#endif
