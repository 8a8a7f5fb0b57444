#include <cmath>

#include "backends/cpu/row_norm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/rms_norm/rms_norm.cpu.cpp"
#include "hwy/foreach_target.h"

#include "backends/cpu/sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dif::cpu::HWY_NAMESPACE {

static void rms_norm_block(const NormBlock& block) {
  with_storage(block.dtype, [&]<class T>(T) {
    const auto n = static_cast<std::size_t>(block.columns);
    const T* const w = static_cast<const T*>(block.w);
    const T* x = static_cast<const T*>(block.x) + block.row * block.columns;
    T* y = static_cast<T*>(block.y) + block.row * block.columns;
    for (std::int64_t row = 0; row < block.n_rows; ++row, x += n, y += n) {
      const double mean = static_cast<double>(sum_of_squares(x, n)) / static_cast<double>(n);
      const VF factor = hn::Set(F(), static_cast<float>(1.0 / std::sqrt(mean + block.eps)));
      if (w != nullptr) {
        map(
            n, y, [factor](VF v, VF weight) { return hn::Mul(hn::Mul(v, factor), weight); }, x, w);
      } else {
        map(
            n, y, [factor](VF v) { return hn::Mul(v, factor); }, x);
      }
    }
  });
}

}  // namespace dif::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dif::cpu {

HWY_EXPORT(rms_norm_block);

MakeResult make_rms_norm(const KernelRequest& request) {
  return make_row_norm(request, HWY_DYNAMIC_DISPATCH(rms_norm_block));
}

}  // namespace dif::cpu
#endif
