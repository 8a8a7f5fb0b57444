#include "backends/cpu/pointwise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/sqrt/sqrt.cpu.cpp"
#include "hwy/foreach_target.h"

#include "backends/cpu/pointwise-inl.h"
#include "backends/cpu/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dif::cpu::HWY_NAMESPACE {

static void sqrt_block(const PointwiseBlock& block) {
  map_block(block, [](VF x) { return hn::Sqrt(x); });
}

static void sqrt_rows(const RowBlock& block) {
  map_rows(block, [](VF x) { return hn::Sqrt(x); });
}

}  // namespace dif::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dif::cpu {

HWY_EXPORT(sqrt_block);
HWY_EXPORT(sqrt_rows);

MakeResult make_sqrt(const KernelRequest& request) {
  return make_pointwise(request, HWY_DYNAMIC_DISPATCH(sqrt_block));
}

RowFunction rows_of_sqrt() {
  return HWY_DYNAMIC_DISPATCH(sqrt_rows);
}

}  // namespace dif::cpu
#endif
