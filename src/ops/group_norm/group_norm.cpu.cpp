#include <algorithm>
#include <cmath>
#include <cstdint>

#include "backends/cpu/kernels.h"
#include "backends/cpu/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/group_norm/group_norm.cpu.cpp"
#include "hwy/foreach_target.h"

#include "backends/cpu/sums-inl.h"

#ifndef DIF_CPU_GROUP_NORM_ONCE_
#define DIF_CPU_GROUP_NORM_ONCE_
namespace dif::cpu {

/// Sizes and addresses of one run.
struct GroupNormRun {
  DType dtype = DType::kF32;
  std::int64_t channels = 0;   ///< of one group
  std::int64_t positions = 0;  ///< of one channel
  std::int64_t groups = 0;
  float eps = 0;
  const void *x = nullptr, *w = nullptr, *bias = nullptr;
  void* y = nullptr;
};

}  // namespace dif::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace dif::cpu::HWY_NAMESPACE {

/// Of pieces that stay in the first cache; pieces are joined as in Chan, Golub & LeVeque (1983), so that one
/// read of memory gives the accuracy of two passes.
template <class T>
Moments group_moments(const T* x, std::int64_t n) {
  constexpr std::int64_t kPiece = 4096;
  Moments all = {0, 0};
  for (std::int64_t first = 0; first < n; first += kPiece) {
    const std::int64_t size = std::min(kPiece, n - first);
    const Moments piece = moments(x + first, static_cast<std::size_t>(size));
    const double before = static_cast<double>(first), total = static_cast<double>(first + size);
    const double apart = piece.mean - all.mean;
    all.mean += apart * static_cast<double>(size) / total;
    all.squares += piece.squares + apart * apart * before * static_cast<double>(size) / total;
  }
  return all;
}

static void group_norm_group(const GroupNormRun& run, std::int64_t index) {
  with_storage(run.dtype, [&]<class T>(T) {
    const std::int64_t size = run.channels * run.positions;
    const T* const x = static_cast<const T*>(run.x) + index * size;
    T* const y = static_cast<T*>(run.y) + index * size;
    const Moments m = group_moments(x, size);
    const double variance = std::max(0.0, m.squares / static_cast<double>(size));
    const auto factor = static_cast<float>(1.0 / std::sqrt(variance + run.eps));
    const std::int64_t first_channel = index % run.groups * run.channels;
    for (std::int64_t c = 0; c < run.channels; ++c) {
      const float w = to_f32(static_cast<const T*>(run.w)[first_channel + c]);
      const Normalise scaled(m.mean, factor * w);
      const VF bias = hn::Set(F(), to_f32(static_cast<const T*>(run.bias)[first_channel + c]));
      map(
          static_cast<std::size_t>(run.positions), y + c * run.positions,
          [&](VF v) { return hn::Add(scaled(v), bias); }, x + c * run.positions);
    }
  });
}

}  // namespace dif::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dif::cpu {

HWY_EXPORT(group_norm_group);

MakeResult make_group_norm(const KernelRequest& request) {
  class GroupNorm final : public runtime::Kernel {
   public:
    explicit GroupNorm(const ir::OpView& op) {
      run_.dtype = op.in(0).dtype;
      run_.groups = op.i64("groups");
      run_.channels = op.in(0).dim(1) / run_.groups;
      run_.positions = op.in(0).numel() / (op.in(0).dim(0) * op.in(0).dim(1));
      run_.eps = op.f32("eps");
      n_groups_ = op.in(0).dim(0) * run_.groups;
    }

    Status run(const runtime::KernelArgs& args) override {
      GroupNormRun run = run_;
      run.x = args.in[0].data<void>();
      run.w = args.in[1].data<void>();
      run.bias = args.in[2].data<void>();
      run.y = args.out[0].data<void>();
      const auto group = HWY_DYNAMIC_DISPATCH(group_norm_group);
      const std::int64_t size = run.channels * run.positions;
      const std::int64_t per_block = std::max<std::int64_t>(1, kBlockElements / size);
      for_blocks(ceil_div(n_groups_, per_block), [&](std::int64_t block) {
        const std::int64_t first = block * per_block, last = std::min(first + per_block, n_groups_);
        for (std::int64_t index = first; index < last; ++index) group(run, index);
      });
      return ok();
    }

   private:
    GroupNormRun run_;
    std::int64_t n_groups_ = 0;
  };
  if (request.op->in(0).numel() == 0) return runtime::declined("there is nothing to normalise");
  if (request.op->flag("channels_last")) return runtime::declined("channels last");
  return std::make_unique<GroupNorm>(*request.op);
}

}  // namespace dif::cpu
#endif
