// Element-wise operations on rows of a group: included once per instruction set.
#if defined(DIF_CPU_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DIF_CPU_ROWS_INL_H_
#undef DIF_CPU_ROWS_INL_H_
#else
#define DIF_CPU_ROWS_INL_H_
#endif

#include <algorithm>

#include "backends/cpu/row_operation.h"
#include "backends/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dif::cpu::HWY_NAMESPACE {

/// Rounds what f returns as if it had been stored as T.
template <class T, class Function>
HWY_INLINE auto rounding(Function f) {
  return [f](auto... x) { return rounded<T>(F(), f(x...)); };
}

/// y = f(x).
template <class Function>
HWY_INLINE void map_rows(const RowBlock& block, Function f) {
  with_storage(block.operation->dtype, [&]<class T>(T) {
    map(static_cast<std::size_t>(block.elements()), block.out, rounding<T>(f), block.in[0].data);
  });
}

/// z = f(x, y) with broadcasting.
template <class Function>
HWY_INLINE void broadcast_rows(const RowBlock& block, Function f) {
  with_storage(block.operation->dtype, [&]<class T>(T) {
    const auto g = rounding<T>(f);
    const BroadcastPlan& plan = block.operation->broadcast;
    const RowOperand &x = block.in[0], &y = block.in[1];
    const std::int64_t begin = block.first_row * block.operation->width, end = begin + block.elements();
    RowCounter at(plan, begin / plan.inner);
    for (std::int64_t i = begin; i < end; at.next()) {
      const std::int64_t column = i % plan.inner;
      const std::int64_t n = std::min(plan.inner - column, end - i);
      const float* const a = x.data + (x.dense ? i - begin : at.x() + column * plan.x_step);
      const float* const b = y.data + (y.dense ? i - begin : at.y() + column * plan.y_step);
      float* const z = block.out + (i - begin);
      const auto count = static_cast<std::size_t>(n);
      if (!x.dense && plan.x_step == 0) {
        const VF one = hn::Set(F(), *a);
        map(
            count, z, [&](VF v) { return g(one, v); }, b);
      } else if (!y.dense && plan.y_step == 0) {
        const VF one = hn::Set(F(), *b);
        map(
            count, z, [&](VF v) { return g(v, one); }, a);
      } else {
        map(count, z, g, a, b);
      }
      i += n;
    }
  });
}

}  // namespace dif::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
