#include "backends/cpu/kernels.h"
#include "backends/cpu/strided_copy.h"

namespace dif::cpu {

MakeResult make_reshape(const KernelRequest& request) {
  /// For a planner that did not let operand and result share their bytes.
  class Reshape final : public runtime::Kernel {
   public:
    explicit Reshape(const ir::OpView& op) : bytes_(static_cast<std::int64_t>(op.out().bytes())) {}

    Status run(const runtime::KernelArgs& args) override {
      const std::byte* const x = args.in[0].data<std::byte>();
      std::byte* const y = args.out[0].data<std::byte>();
      if (x != y) copy_rows(x, 0, y, 0, 1, bytes_);
      return ok();
    }

   private:
    const std::int64_t bytes_;
  };
  return std::make_unique<Reshape>(*request.op);
}

}  // namespace dif::cpu
