#include "backends/opencl/kernels.h"
#include "backends/opencl/row_sums.h"

namespace dif::opencl {

namespace {

constexpr Groups kLocal = {16, 1, 1};

constexpr const char* kText = R"(
kernel __attribute__((reqd_work_group_size(16, 1, 1)))
void layer_norm(@buffers@int rows, int width, int weighted, int biased, float eps) {
  const int row = get_global_id(0);
  if (row >= rows) return;
  VIEW(const @S@_bits, x);
  VIEW(const @S@_bits, w);
  VIEW(const @S@_bits, bias);
  VIEW(@S@_bits, y);
  x += (long)row * width;
  y += (long)row * width;
  const float mean = row_sum(x, width) / (float)width;
  const float scale = 1.0f / sqrt(row_squares(x, width, mean) / (float)width + eps);
  for (int i = 0; i < width; i += 16) {
    const int count = width - i;
    float16 v = (load16_@S@(x + i, count) - mean) * scale;
    if (weighted) v *= load16_@S@(w + i, count);
    if (biased) v += load16_@S@(bias + i, count);
    store16_@S@(y + i, count, v);
  }
}
)";

class LayerNorm final : public runtime::Kernel {
 public:
  LayerNorm(ClKernel kernel, const ir::OpView& op) : kernel_(std::move(kernel)), op_(op) {}

  Status run(const runtime::KernelArgs& args) override {
    const std::int64_t width = op_.in(0).dim(-1), rows = op_.in(0).numel() / width;
    const bool weighted = op_.has(1), biased = op_.has(2);
    return kernel_.launch(
        {ceil_div(rows, kLocal.x), 1, 1},
        {args.in[0].buffer, args.in[weighted ? 1 : 0].buffer, args.in[biased ? 2 : 0].buffer,
         args.out[0].buffer, static_cast<std::int32_t>(rows), static_cast<std::int32_t>(width),
         std::int32_t{weighted}, std::int32_t{biased}, op_.f32("eps")});
  }

 private:
  ClKernel kernel_;
  const ir::OpView& op_;
};

}  // namespace

MakeResult make_layer_norm(const KernelRequest& request) {
  const ir::OpView& op = *request.op;
  DIF_TRY(computable(op));
  const DType dtype = op.in(0).dtype;
  const std::string text =
      prelude() + row_sums(dtype) +
      fill(kText, {{"buffers", buffer_parameters({"x", "w", "bias", "y"})}, {"S", storage(dtype)}});
  DIF_ASSIGN(ClKernel kernel, device_of(request.device).kernel(text, "layer_norm", kLocal));
  return std::make_unique<LayerNorm>(std::move(kernel), op);
}

}  // namespace dif::opencl
