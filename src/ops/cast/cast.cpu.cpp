#include "backends/cpu/convert.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/row_operation.h"
#include "backends/cpu/storage.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cast/cast.cpu.cpp"
#include "hwy/foreach_target.h"

#include "backends/cpu/rows-inl.h"
#include "ops/common/checks.h"

HWY_BEFORE_NAMESPACE();
namespace dif::cpu::HWY_NAMESPACE {

static void cast_rows(const RowBlock& block) {
  const RowOperand& x = block.in[0];
  const Traffic past_caches = {block.traffic.past_caches};
  with_storage(x.dtype, [&]<class X>(X) {
    with_storage(block.operation->dtype, [&]<class Y>(Y) {
      map_out(
          past_caches, static_cast<std::size_t>(block.n), block.out_as<Y>(), [](VF v) { return v; },
          x.as<X>());
    });
  });
}

}  // namespace dif::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace dif::cpu {

HWY_EXPORT(cast_rows);

MakeResult make_cast(const KernelRequest& request) {
  class Cast final : public runtime::Kernel {
   public:
    explicit Cast(const ir::OpView& op) : from_(op.in(0).dtype), to_(op.out().dtype), n_(op.out().numel()) {}

    Status run(const runtime::KernelArgs& args) override {
      convert(from_, args.in[0].data<void>(), to_, args.out[0].data<void>(), n_);
      return ok();
    }

   private:
    const DType from_, to_;
    const std::int64_t n_;
  };
  const ir::OpView& op = *request.op;
  if (!ops::is_float(op.in(0).dtype) || !ops::is_float(op.out().dtype))
    return runtime::declined("{} to {} is not vectorised", op.in(0).dtype, op.out().dtype);
  return std::make_unique<Cast>(op);
}

RowFunction rows_of_cast() {
  return HWY_DYNAMIC_DISPATCH(cast_rows);
}

}  // namespace dif::cpu
#endif
