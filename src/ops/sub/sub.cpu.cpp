#include "backends/cpu/broadcast.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/sub/sub.cpu.cpp"
#include "hwy/foreach_target.h"

#include "backends/cpu/broadcast-inl.h"
#include "backends/cpu/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dif::cpu::HWY_NAMESPACE {

static void sub_block(const BroadcastBlock& block) {
  broadcast_block(block, [](VF x, VF y) { return hn::Sub(x, y); });
}

static void sub_rows(const RowBlock& block) {
  broadcast_rows(block, [](VF x, VF y) { return hn::Sub(x, y); });
}

}  // namespace dif::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dif::cpu {

HWY_EXPORT(sub_block);
HWY_EXPORT(sub_rows);

MakeResult make_sub(const KernelRequest& request) {
  return make_broadcast(request, HWY_DYNAMIC_DISPATCH(sub_block));
}

RowFunction rows_of_sub() {
  return HWY_DYNAMIC_DISPATCH(sub_rows);
}

}  // namespace dif::cpu
#endif
