#include "backends/cpu/instruction_set.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/instruction_set.cpp"
#include "hwy/foreach_target.h"

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace dif::cpu::HWY_NAMESPACE {
static const char* target_name() {
  return hwy::TargetName(HWY_TARGET);
}
}  // namespace dif::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dif::cpu {
HWY_EXPORT(target_name);
const char* instruction_set() {
  return HWY_DYNAMIC_DISPATCH(target_name)();
}
}  // namespace dif::cpu
#endif
