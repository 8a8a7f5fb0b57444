#include <algorithm>
#include <cmath>

#include "backends/cpu/row_norm.h"
#include "backends/cpu/row_operation.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/layer_norm/layer_norm.cpu.cpp"
#include "hwy/foreach_target.h"

#include "backends/cpu/rows-inl.h"
#include "backends/cpu/sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dif::cpu::HWY_NAMESPACE {

template <class T>
HWY_INLINE void layer_norm_row(const T* x, const T* w, const T* bias, std::size_t n, float eps,
                               const Traffic& traffic, T* y) {
  const Moments m = moments(x, n);
  const double variance = std::max(0.0, m.squares / static_cast<double>(n));
  const Normalise normalised(m.mean, static_cast<float>(1.0 / std::sqrt(variance + eps)));
  if (w == nullptr) {
    map_out(traffic, n, y, normalised, x);
  } else if (bias == nullptr) {
    map_out(
        traffic, n, y, [&](VF v, VF a) { return hn::Mul(normalised(v), a); }, x, w);
  } else {
    map_out(
        traffic, n, y, [&](VF v, VF a, VF b) { return hn::Add(hn::Mul(normalised(v), a), b); }, x, w, bias);
  }
}

static void layer_norm_block(const NormBlock& block) {
  with_storage(block.dtype, [&]<class T>(T) {
    const auto n = static_cast<std::size_t>(block.columns);
    const T *const w = static_cast<const T*>(block.w), *const bias = static_cast<const T*>(block.bias);
    const T* x = static_cast<const T*>(block.x) + block.row * block.columns;
    T* y = static_cast<T*>(block.y) + block.row * block.columns;
    for (std::int64_t row = 0; row < block.n_rows; ++row, x += n, y += n)
      layer_norm_row(x, w, bias, n, block.eps, {}, y);
  });
}

static void layer_norm_rows(const RowBlock& block) {
  with_storage(block.operation->dtype, [&]<class T>(T) {
    const std::int64_t n = block.operation->columns;
    const T* const w = block.in.size() > 1 ? block.in[1].as<T>() : nullptr;
    const T* const bias = block.in.size() > 2 ? block.in[2].as<T>() : nullptr;
    for (std::int64_t i = 0; i < block.n; i += n)
      layer_norm_row(block.in[0].as<T>() + i, w, bias, static_cast<std::size_t>(n), block.operation->value,
                     block.traffic.part(i / n, block.n / n), block.out_as<T>() + i);
  });
}

}  // namespace dif::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dif::cpu {

HWY_EXPORT(layer_norm_block);
HWY_EXPORT(layer_norm_rows);

MakeResult make_layer_norm(const KernelRequest& request) {
  return make_row_norm(request, HWY_DYNAMIC_DISPATCH(layer_norm_block));
}

RowFunction rows_of_layer_norm() {
  return HWY_DYNAMIC_DISPATCH(layer_norm_rows);
}

}  // namespace dif::cpu
#endif
