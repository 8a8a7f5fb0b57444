#include <algorithm>
#include <cmath>

#include "backends/cpu/row_norm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/layer_norm/layer_norm.cpu.cpp"
#include "hwy/foreach_target.h"

#include "backends/cpu/sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dif::cpu::HWY_NAMESPACE {

static void layer_norm_block(const NormBlock& block) {
  with_storage(block.dtype, [&]<class T>(T) {
    const auto n = static_cast<std::size_t>(block.columns);
    const double count = static_cast<double>(n);
    const T *const w = static_cast<const T*>(block.w), *const bias = static_cast<const T*>(block.bias);
    const T* x = static_cast<const T*>(block.x) + block.row * block.columns;
    T* y = static_cast<T*>(block.y) + block.row * block.columns;
    for (std::int64_t row = 0; row < block.n_rows; ++row, x += n, y += n) {
      const Moments m = moments(x, n);
      const double variance = std::max(0.0, m.squares / count);
      const Normalise normalised(m.mean, static_cast<float>(1.0 / std::sqrt(variance + block.eps)));
      if (w == nullptr) {
        map(n, y, normalised, x);
      } else if (bias == nullptr) {
        map(
            n, y, [&](VF v, VF a) { return hn::Mul(normalised(v), a); }, x, w);
      } else {
        map(
            n, y, [&](VF v, VF a, VF b) { return hn::Add(hn::Mul(normalised(v), a), b); }, x, w, bias);
      }
    }
  });
}

}  // namespace dif::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dif::cpu {

HWY_EXPORT(layer_norm_block);

MakeResult make_layer_norm(const KernelRequest& request) {
  return make_row_norm(request, HWY_DYNAMIC_DISPATCH(layer_norm_block));
}

}  // namespace dif::cpu
#endif
