#include "backends/cpu/pointwise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/add_scalar/add_scalar.cpu.cpp"
#include "hwy/foreach_target.h"

#include "backends/cpu/pointwise-inl.h"
#include "backends/cpu/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dif::cpu::HWY_NAMESPACE {

static void add_scalar_block(const PointwiseBlock& block) {
  const VF value = hn::Set(F(), block.value);
  map_block(block, [value](VF x) { return hn::Add(x, value); });
}

static void add_scalar_rows(const RowBlock& block) {
  const VF value = hn::Set(F(), block.operation->value);
  map_rows(block, [value](VF x) { return hn::Add(x, value); });
}

}  // namespace dif::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dif::cpu {

HWY_EXPORT(add_scalar_block);
HWY_EXPORT(add_scalar_rows);

MakeResult make_add_scalar(const KernelRequest& request) {
  return make_pointwise(request, HWY_DYNAMIC_DISPATCH(add_scalar_block), request.op->f32("value"));
}

RowFunction rows_of_add_scalar() {
  return HWY_DYNAMIC_DISPATCH(add_scalar_rows);
}

}  // namespace dif::cpu
#endif
