#include <cmath>

#include "backends/cpu/row_norm.h"
#include "backends/cpu/row_operation.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/rms_norm/rms_norm.cpu.cpp"
#include "hwy/foreach_target.h"

#include "backends/cpu/rows-inl.h"
#include "backends/cpu/sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dif::cpu::HWY_NAMESPACE {

/// Storage is how x, w and y lie in memory; y is rounded as if it were stored as T.
template <class T, class Storage>
HWY_INLINE void rms_norm_row(const Storage* x, const Storage* w, std::size_t n, float eps, Storage* y) {
  const double mean = static_cast<double>(sum_of_squares(x, n)) / static_cast<double>(n);
  const VF factor = hn::Set(F(), static_cast<float>(1.0 / std::sqrt(mean + eps)));
  if (w != nullptr) {
    map(
        n, y, [factor](VF v, VF weight) { return rounded<T>(F(), hn::Mul(hn::Mul(v, factor), weight)); }, x,
        w);
  } else {
    map(
        n, y, [factor](VF v) { return rounded<T>(F(), hn::Mul(v, factor)); }, x);
  }
}

static void rms_norm_block(const NormBlock& block) {
  with_storage(block.dtype, [&]<class T>(T) {
    const auto n = static_cast<std::size_t>(block.columns);
    const T* x = static_cast<const T*>(block.x) + block.row * block.columns;
    T* y = static_cast<T*>(block.y) + block.row * block.columns;
    for (std::int64_t row = 0; row < block.n_rows; ++row, x += n, y += n)
      rms_norm_row<float>(x, static_cast<const T*>(block.w), n, block.eps, y);
  });
}

static void rms_norm_rows(const RowBlock& block) {
  with_storage(block.operation->dtype, [&]<class T>(T) {
    const std::int64_t n = block.operation->columns;
    const float* const w = block.in.size() > 1 ? block.in[1].data : nullptr;
    for (std::int64_t i = 0; i < block.elements(); i += n)
      rms_norm_row<T>(block.in[0].data + i, w, static_cast<std::size_t>(n), block.operation->value,
                      block.out + i);
  });
}

}  // namespace dif::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dif::cpu {

HWY_EXPORT(rms_norm_block);
HWY_EXPORT(rms_norm_rows);

MakeResult make_rms_norm(const KernelRequest& request) {
  return make_row_norm(request, HWY_DYNAMIC_DISPATCH(rms_norm_block));
}

RowFunction rows_of_rms_norm() {
  return HWY_DYNAMIC_DISPATCH(rms_norm_rows);
}

}  // namespace dif::cpu
#endif
