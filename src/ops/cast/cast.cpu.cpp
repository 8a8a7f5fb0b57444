#include "backends/cpu/convert.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/storage.h"

namespace dif::cpu {

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
  if (!has_storage(op.in(0).dtype) || !has_storage(op.out().dtype))
    return runtime::declined("{} to {} is not vectorised", op.in(0).dtype, op.out().dtype);
  return std::make_unique<Cast>(op);
}

}  // namespace dif::cpu
