#include "backends/cpu/pointwise.h"

#include <algorithm>

#include "backends/cpu/parallel.h"
#include "backends/cpu/storage.h"
#include "backends/cpu/stream_out.h"
#include "backends/cpu/traffic.h"
#include "ops/common/checks.h"

namespace dif::cpu {

MakeResult make_pointwise(const KernelRequest& request, PointwiseFunction function, float value) {
  class Pointwise final : public runtime::Kernel {
   public:
    Pointwise(const ir::TensorType& type, PointwiseFunction function, float value)
        : dtype_(type.dtype), n_(type.numel()), function_(function), value_(value) {}

    Status run(const runtime::KernelArgs& args) override {
      const void* const x = args.in[0].data<void>();
      void* const y = args.out[0].data<void>();
      const bool past_caches = n_ * static_cast<std::int64_t>(dtype_size(dtype_)) > kPastCachesBytes;
      for_blocks(ceil_div(n_, kBlockElements), [&](std::int64_t block) {
        const std::int64_t first = block * kBlockElements;
        function_({dtype_, x, y, value_, first, std::min(kBlockElements, n_ - first), past_caches});
        if (past_caches) finish_stream();
      });
      return ok();
    }

   private:
    const DType dtype_;
    const std::int64_t n_;
    const PointwiseFunction function_;
    const float value_;
  };
  const ir::TensorType& type = request.op->in(0);
  if (!ops::is_float(type.dtype)) return runtime::declined("vectors of {} are not written", type.dtype);
  return std::make_unique<Pointwise>(type, function, value);
}

}  // namespace dif::cpu
