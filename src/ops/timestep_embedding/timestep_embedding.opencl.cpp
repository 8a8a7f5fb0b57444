#include "backends/opencl/kernels.h"
#include "ops/timestep_embedding/timestep_embedding.op.h"

namespace dif::opencl {

namespace {

constexpr Groups kLocal = {16, 4, 1};

constexpr const char* kText = R"(
kernel __attribute__((reqd_work_group_size(16, 4, 1)))
void embed(@buffers@int half_width, int rows) {
  const int row = get_global_id(1), i = get_global_id(0);
  if (row >= rows || i >= half_width) return;
  VIEW(const float, t);
  VIEW(const float, frequencies);
  VIEW(float, y);
  const float angle = t[row] * frequencies[i];
  y[row * 2 * half_width + i] = cos(angle);
  y[row * 2 * half_width + half_width + i] = sin(angle);
}
)";

class TimestepEmbedding final : public runtime::Kernel {
 public:
  TimestepEmbedding(ClKernel kernel, runtime::DeviceBuffer frequencies, const ir::OpView& op)
      : kernel_(std::move(kernel)),
        frequencies_(std::move(frequencies)),
        half_(op.i64("width") / 2),
        rows_(op.in(0).dim(0)) {}

  Status run(const runtime::KernelArgs& args) override {
    return kernel_.launch({ceil_div(half_, kLocal.x), ceil_div(rows_, kLocal.y), 1},
                          {args.in[0].buffer, frequencies_.view(), args.out[0].buffer,
                           static_cast<std::int32_t>(half_), static_cast<std::int32_t>(rows_)});
  }
  std::uint64_t prepacked_bytes() const override { return static_cast<std::uint64_t>(half_) * sizeof(float); }

 private:
  ClKernel kernel_;
  runtime::DeviceBuffer frequencies_;
  const std::int64_t half_, rows_;
};

}  // namespace

MakeResult make_timestep_embedding(const KernelRequest& request) {
  DIF_TRY(computable(*request.op));
  OpenClDevice& device = device_of(request.device);
  // Rounded as the operation promises, which a device need not do.
  const std::vector<float> table = ops::timestep_frequencies(*request.op);
  runtime::DeviceBuffer buffer;
  if (!request.plan_only) {
    DIF_ASSIGN(buffer, runtime::DeviceBuffer::create(device, table.size() * sizeof(float)));
    DIF_TRY(device.upload(buffer.view(), table.data(), table.size() * sizeof(float)));
  }
  DIF_ASSIGN(
      ClKernel kernel,
      device.kernel(prelude() + fill(kText, {{"buffers", buffer_parameters({"t", "frequencies", "y"})}}),
                    "embed", kLocal));
  return std::make_unique<TimestepEmbedding>(std::move(kernel), std::move(buffer), *request.op);
}

}  // namespace dif::opencl
