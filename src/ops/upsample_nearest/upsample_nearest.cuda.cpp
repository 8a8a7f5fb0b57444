#include <limits>

#include "backends/cuda/kernels.h"
#include "backends/cuda/strided_copy.h"
#include "ops/upsample_nearest/upsample_nearest.op.h"
#include "runtime/axes.h"

namespace dif::cuda {

namespace {

constexpr int kThreads = 256;

/// Input units that 32-bit numbers count, threads past the end included.
constexpr std::int64_t kMostUnits = std::numeric_limits<std::int32_t>::max() - kThreads;

/// Channels last: each thread reads one unit of a pixel and writes it factor x factor times.
constexpr const char* kText = R"(
extern "C" __global__ void __launch_bounds__(256)
repeat(const @type@* x, @type@* y, int count, int units, int columns, int factor) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= count) return;
  const @type@ v = x[i];
  const int pixel = i / units, row = pixel / columns;
  const Index width = (Index)columns * factor;
  y += (row * factor * width + pixel % columns * factor) * units + i % units;
  for (int r = 0; r < factor; ++r)
    for (int c = 0; c < factor; ++c) y[(r * width + c) * units] = v;
}
)";

class Repeat final : public runtime::Kernel {
 public:
  Repeat(CudaKernel kernel, std::int64_t units, const ir::OpView& op)
      : kernel_(kernel),
        units_(units),
        count_(op.in(0).dim(0) * op.in(0).dim(1) * op.in(0).dim(2) * units),
        columns_(op.in(0).dim(2)),
        factor_(op.i64("factor")) {}

  Status run(const runtime::KernelArgs& args) override {
    return kernel_.launch({ceil_div(count_, kThreads)},
                          {args.in[0].buffer, args.out[0].buffer, static_cast<std::int32_t>(count_),
                           static_cast<std::int32_t>(units_), static_cast<std::int32_t>(columns_),
                           static_cast<std::int32_t>(factor_)});
  }

 private:
  CudaKernel kernel_;
  const std::int64_t units_, count_, columns_, factor_;
};

MakeResult make_repeat(const KernelRequest& request) {
  const ir::OpView& op = *request.op;
  std::int64_t unit = 16;
  const std::int64_t pixel = op.in(0).dim(3) * static_cast<std::int64_t>(dtype_size(op.in(0).dtype));
  while (pixel % unit != 0) unit /= 2;
  DIF_ASSIGN(const CudaKernel kernel,
             device_of(request.device)
                 .kernel(prelude() + fill(kText, {{"type", bits_type(unit)}}), "repeat", kThreads));
  return std::make_unique<Repeat>(kernel, pixel / unit, op);
}

}  // namespace

MakeResult make_upsample_nearest(const KernelRequest& request) {
  const std::int64_t elements = request.op->in(0).numel();
  if (request.op->flag("channels_last") && elements != 0 && elements <= kMostUnits)
    return make_repeat(request);
  const ops::Repeats repeats = ops::repeats(*request.op);
  return make_strided_copy(
      request, {{0, repeats.shape, 0, 0, repeats.x_strides, runtime::dense_strides(repeats.shape)}});
}

}  // namespace dif::cuda
