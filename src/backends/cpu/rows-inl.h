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

/// y = f(x).
template <class Function>
HWY_INLINE void map_rows(const RowBlock& block, Function f) {
  const Traffic past_caches = {block.traffic.past_caches};
  with_storage(block.operation->dtype, [&]<class T>(T) {
    map_out(past_caches, static_cast<std::size_t>(block.n), block.out_as<T>(), f, block.in[0].as<T>());
  });
}

/// z = f(x, y) with broadcasting.
template <class Function>
HWY_INLINE void broadcast_rows(const RowBlock& block, Function f) {
  with_storage(block.operation->dtype, [&]<class T>(T) {
    const BroadcastPlan& plan = block.operation->broadcast;
    const RowOperand &x = block.in[0], &y = block.in[1];
    T* z = block.out_as<T>();
    const Traffic past_caches = {block.traffic.past_caches};
    if (x.dense && y.dense)
      return map_out(past_caches, static_cast<std::size_t>(block.n), z, f, x.as<T>(), y.as<T>());
    RowCounter at(plan, block.first / plan.inner);
    std::int64_t column = block.first % plan.inner;
    for (std::int64_t i = 0; i < block.n; column = 0, at.next()) {
      const std::int64_t n = std::min(plan.inner - column, block.n - i);
      const T* const a = x.as<T>() + (x.dense ? i : at.x() + column * plan.x_step);
      const T* const b = y.as<T>() + (y.dense ? i : at.y() + column * plan.y_step);
      if (!x.dense && plan.x_step == 0) {
        const VF one = hn::Set(F(), to_f32(*a));
        map_out(
            past_caches, static_cast<std::size_t>(n), z + i, [&](VF v) { return f(one, v); }, b);
      } else if (!y.dense && plan.y_step == 0) {
        const VF one = hn::Set(F(), to_f32(*b));
        map_out(
            past_caches, static_cast<std::size_t>(n), z + i, [&](VF v) { return f(v, one); }, a);
      } else {
        map_out(past_caches, static_cast<std::size_t>(n), z + i, f, a, b);
      }
      i += n;
    }
  });
}

}  // namespace dif::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
