// Element-wise operations of one operand: included once per instruction set.
#if defined(DIF_CPU_POINTWISE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DIF_CPU_POINTWISE_INL_H_
#undef DIF_CPU_POINTWISE_INL_H_
#else
#define DIF_CPU_POINTWISE_INL_H_
#endif

#include "backends/cpu/pointwise.h"
#include "backends/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dif::cpu::HWY_NAMESPACE {

/// y = f(x) for one block, where f maps a vector of f32.
template <class Function>
HWY_INLINE void map_block(const PointwiseBlock& block, Function f) {
  with_storage(block.dtype, [&]<class T>(T) {
    map_out(Traffic{block.past_caches}, static_cast<std::size_t>(block.n),
            static_cast<T*>(block.y) + block.first, f, static_cast<const T*>(block.x) + block.first);
  });
}

}  // namespace dif::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
