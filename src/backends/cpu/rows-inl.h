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
  with_storage(block.operation->dtype, [&]<class T>(T) {
    map(static_cast<std::size_t>(block.elements()), block.out_as<T>(), f, block.in[0].as<T>());
  });
}

/// z = f(x, y) with broadcasting.
template <class Function>
HWY_INLINE void broadcast_rows(const RowBlock& block, Function f) {
  with_storage(block.operation->dtype, [&]<class T>(T) {
    const BroadcastPlan& plan = block.operation->broadcast;
    const RowOperand &x = block.in[0], &y = block.in[1];
    const std::int64_t begin = block.first_row * block.operation->width, end = begin + block.elements();
    RowCounter at(plan, begin / plan.inner);
    for (std::int64_t i = begin; i < end; at.next()) {
      const std::int64_t column = i % plan.inner;
      const std::int64_t n = std::min(plan.inner - column, end - i);
      const T* const a = x.as<T>() + (x.dense ? i - begin : at.x() + column * plan.x_step);
      const T* const b = y.as<T>() + (y.dense ? i - begin : at.y() + column * plan.y_step);
      T* const z = block.out_as<T>() + (i - begin);
      const auto count = static_cast<std::size_t>(n);
      if (!x.dense && plan.x_step == 0) {
        const VF one = hn::Set(F(), to_f32(*a));
        map(
            count, z, [&](VF v) { return f(one, v); }, b);
      } else if (!y.dense && plan.y_step == 0) {
        const VF one = hn::Set(F(), to_f32(*b));
        map(
            count, z, [&](VF v) { return f(v, one); }, a);
      } else {
        map(count, z, f, a, b);
      }
      i += n;
    }
  });
}

}  // namespace dif::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
