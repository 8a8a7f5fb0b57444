#include "backends/cuda/kernels.h"
#include "ops/timestep_embedding/timestep_embedding.op.h"

namespace dif::cuda {

namespace {

constexpr int kThreads = 128;

constexpr const char* kText = R"(
extern "C" __global__ void embed(const float* t, const float* frequencies, float* y, int half_width) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
  if (i >= half_width) return;
  const double angle = (double)(t[row] * frequencies[i]);
  y[(Index)row * 2 * half_width + i] = (float)cos(angle);
  y[(Index)row * 2 * half_width + half_width + i] = (float)sin(angle);
}
)";

class TimestepEmbedding final : public runtime::Kernel {
 public:
  TimestepEmbedding(CudaKernel kernel, runtime::DeviceBuffer frequencies, const ir::OpView& op)
      : kernel_(kernel),
        frequencies_(std::move(frequencies)),
        half_(op.i64("width") / 2),
        rows_(op.in(0).dim(0)) {}

  Status run(const runtime::KernelArgs& args) override {
    return kernel_.launch(
        {ceil_div(half_, kThreads), rows_},
        {args.in[0].buffer, frequencies_.view(), args.out[0].buffer, static_cast<std::int32_t>(half_)});
  }
  std::uint64_t prepacked_bytes() const override { return frequencies_.bytes(); }

 private:
  CudaKernel kernel_;
  runtime::DeviceBuffer frequencies_;
  const std::int64_t half_, rows_;
};

}  // namespace

MakeResult make_timestep_embedding(const KernelRequest& request) {
  constexpr std::int64_t kMostRows = 65535;
  if (request.op->in(0).dim(0) > kMostRows)
    return runtime::declined("{} timesteps, at most {} are one launch", request.op->in(0).dim(0), kMostRows);
  CudaDevice& device = device_of(request.device);
  // Rounded as the operation promises, which a device need not do.
  const std::vector<float> table = ops::timestep_frequencies(*request.op);
  DIF_ASSIGN(auto buffer, runtime::DeviceBuffer::create(device, table.size() * sizeof(float)));
  DIF_TRY(device.upload(buffer.view(), table.data(), table.size() * sizeof(float)));
  DIF_ASSIGN(const CudaKernel kernel, device.kernel(prelude() + kText, "embed", kThreads));
  return std::make_unique<TimestepEmbedding>(kernel, std::move(buffer), *request.op);
}

}  // namespace dif::cuda
