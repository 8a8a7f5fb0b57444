#include "backends/cpu/broadcast.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/add/add.cpu.cpp"
#include "hwy/foreach_target.h"

#include "backends/cpu/broadcast-inl.h"
#include "backends/cpu/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dif::cpu::HWY_NAMESPACE {

static void add_block(const BroadcastBlock& block) {
  broadcast_block(block, [](VF x, VF y) { return hn::Add(x, y); });
}

static void add_rows(const RowBlock& block) {
  broadcast_rows(block, [](VF x, VF y) { return hn::Add(x, y); });
}

}  // namespace dif::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dif::cpu {

HWY_EXPORT(add_block);
HWY_EXPORT(add_rows);

MakeResult make_add(const KernelRequest& request) {
  return make_broadcast(request, HWY_DYNAMIC_DISPATCH(add_block));
}

RowFunction rows_of_add() {
  return HWY_DYNAMIC_DISPATCH(add_rows);
}

}  // namespace dif::cpu
#endif
