#include "backends/cpu/convert.h"

#include <algorithm>
#include <cstddef>

#include "backends/cpu/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/convert.cpp"
#include "hwy/foreach_target.h"

#include "backends/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dif::cpu::HWY_NAMESPACE {

static void convert_block(DType from, const void* x, DType to, void* y, std::int64_t first, std::int64_t n) {
  with_storage(from, [&]<class X>(X) {
    with_storage(to, [&]<class Y>(Y) {
      map(
          static_cast<std::size_t>(n), static_cast<Y*>(y) + first, [](VF v) { return v; },
          static_cast<const X*>(x) + first);
    });
  });
}

}  // namespace dif::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dif::cpu {

HWY_EXPORT(convert_block);

void convert(DType from, const void* x, DType to, void* y, std::int64_t n) {
  const auto block_of = HWY_DYNAMIC_DISPATCH(convert_block);
  for_blocks(ceil_div(n, kBlockElements), [&](std::int64_t block) {
    const std::int64_t first = block * kBlockElements;
    block_of(from, x, to, y, first, std::min(kBlockElements, n - first));
  });
}

}  // namespace dif::cpu
#endif
