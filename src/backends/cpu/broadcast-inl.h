// Element-wise operations of two operands: included once per instruction set.
#if defined(DIF_CPU_BROADCAST_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DIF_CPU_BROADCAST_INL_H_
#undef DIF_CPU_BROADCAST_INL_H_
#else
#define DIF_CPU_BROADCAST_INL_H_
#endif

#include "backends/cpu/broadcast.h"
#include "backends/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dif::cpu::HWY_NAMESPACE {

/// z = f(x, y) for one block, where f maps vectors of f32.
template <class Function>
HWY_INLINE void broadcast_block(const BroadcastBlock& block, Function f) {
  with_storage(block.dtype, [&]<class T>(T) {
    const BroadcastPlan& plan = *block.plan;
    const Traffic past_caches = {block.past_caches};
    const auto* const x = static_cast<const T*>(block.x) + block.first * plan.x_step;
    const auto* const y = static_cast<const T*>(block.y) + block.first * plan.y_step;
    T* z = static_cast<T*>(block.z) + block.row * plan.inner + block.first;
    const auto n = static_cast<std::size_t>(block.n);
    RowCounter at(plan, block.row);
    for (std::int64_t row = 0; row < block.n_rows; ++row, z += plan.inner, at.next()) {
      const T *const a = x + at.x(), *const b = y + at.y();
      if (plan.x_step == 0) {
        const VF one = hn::Set(F(), to_f32(*a));
        map_out(
            past_caches, n, z, [&](VF v) { return f(one, v); }, b);
      } else if (plan.y_step == 0) {
        const VF one = hn::Set(F(), to_f32(*b));
        map_out(
            past_caches, n, z, [&](VF v) { return f(v, one); }, a);
      } else {
        map_out(past_caches, n, z, f, a, b);
      }
    }
  });
}

}  // namespace dif::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
