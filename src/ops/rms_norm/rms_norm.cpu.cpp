#include <algorithm>
#include <cmath>
#include <cstdint>

#include "backends/cpu/row_norm.h"
#include "backends/cpu/row_operation.h"
#include "base/checked_math.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/rms_norm/rms_norm.cpu.cpp"
#include "hwy/foreach_target.h"

#include "backends/cpu/rows-inl.h"
#include "backends/cpu/sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dif::cpu::HWY_NAMESPACE {

/// Rows that are summed before the first of them is scaled: the way from a sum to its factor is long, and
/// those of several rows go side by side.
constexpr std::int64_t kTogether = 16;

template <class T>
HWY_INLINE void rms_norm_some(const T* x, const T* w, std::int64_t n_rows, std::int64_t columns, float eps,
                              const Traffic& traffic, T* y) {
  const auto n = static_cast<std::size_t>(columns);
  float factors[kTogether];
  for (std::int64_t row = 0; row < n_rows; ++row) factors[row] = sum_of_squares(x + row * columns, n);
  for (std::int64_t row = 0; row < n_rows; ++row)
    factors[row] = static_cast<float>(
        1.0 / std::sqrt(static_cast<double>(factors[row]) / static_cast<double>(columns) + eps));
  for (std::int64_t row = 0; row < n_rows; ++row, x += columns, y += columns) {
    const VF factor = hn::Set(F(), factors[row]);
    const Traffic part = traffic.part(row, n_rows);
    if (w != nullptr) {
      map_out(
          part, n, y, [factor](VF v, VF weight) { return hn::Mul(hn::Mul(v, factor), weight); }, x, w);
    } else {
      map_out(
          part, n, y, [factor](VF v) { return hn::Mul(v, factor); }, x);
    }
  }
}

template <class T>
void rms_norm_all(const T* x, const T* w, std::int64_t n_rows, std::int64_t columns, float eps,
                  const Traffic& traffic, T* y) {
  constexpr std::int64_t kNear = 4096;  // elements that stay in the first cache
  const std::int64_t together = std::clamp<std::int64_t>(kNear / columns, 1, kTogether);
  const std::int64_t parts = ceil_div(n_rows, together);
  for (std::int64_t i = 0; i < parts; ++i, x += together * columns, y += together * columns)
    rms_norm_some(x, w, std::min(together, n_rows - i * together), columns, eps, traffic.part(i, parts), y);
}

static void rms_norm_block(const NormBlock& block) {
  with_storage(block.dtype, [&]<class T>(T) {
    const std::int64_t first = block.row * block.columns;
    rms_norm_all(static_cast<const T*>(block.x) + first, static_cast<const T*>(block.w), block.n_rows,
                 block.columns, block.eps, {}, static_cast<T*>(block.y) + first);
  });
}

static void rms_norm_rows(const RowBlock& block) {
  with_storage(block.operation->dtype, [&]<class T>(T) {
    const std::int64_t columns = block.operation->columns;
    rms_norm_all(block.in[0].as<T>(), block.in.size() > 1 ? block.in[1].as<T>() : nullptr, block.n / columns,
                 columns, block.operation->value, block.traffic, block.out_as<T>());
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
