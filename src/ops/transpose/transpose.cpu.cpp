#include "backends/cpu/kernels.h"
#include "backends/cpu/strided_copy.h"

namespace dif::cpu {

MakeResult make_transpose(const KernelRequest& request) {
  class Transpose final : public runtime::Kernel {
   public:
    explicit Transpose(const ir::OpView& op)
        : copy_(op.in(0).shape, op.i64s("perm"), dtype_size(op.in(0).dtype)) {}

    Status run(const runtime::KernelArgs& args) override {
      copy_.run(args.in[0].data<std::byte>(), args.out[0].data<std::byte>());
      return ok();
    }

   private:
    const StridedCopy copy_;
  };
  return std::make_unique<Transpose>(*request.op);
}

}  // namespace dif::cpu
