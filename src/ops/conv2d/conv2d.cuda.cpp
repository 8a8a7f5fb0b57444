#include <algorithm>

#include "backends/cuda/cudnn_graph.h"
#include "backends/cuda/kernels.h"
#include "backends/cuda/tile_text.h"

namespace dif::cuda {

namespace {

class DnnConvolution final : public runtime::Kernel {
 public:
  explicit DnnConvolution(std::unique_ptr<DnnGraph> graph) : graph_(std::move(graph)) {}

  Status run(const runtime::KernelArgs& args) override {
    std::vector<runtime::BufferView> tensors = {args.in[0].buffer, args.in[1].buffer, args.out[0].buffer};
    if (args.in.size() > 2) tensors.push_back(args.in[2].buffer);
    return graph_->run(tensors, args.workspace);
  }
  std::uint64_t workspace_bytes() const override { return graph_->workspace_bytes(); }

 private:
  std::unique_ptr<DnnGraph> graph_;
};

/// An implicit matrix product: rows are the channels of the result in one group, columns its pixels, and
/// depth the taps of the kernel over the group's input channels.
constexpr const char* kText = R"(
extern "C" __global__ void __launch_bounds__(256)
convolve(const @T@* x, const @T@* w, const @T@* bias, @T@* y, int groups, int channels, const Index M, int height,
         int width, int kernel_height, int kernel_width, int out_height, int out_width, Index row_step, Index column_step,
         Index top, Index left, int biased) {
  const Index K = (Index)channels * kernel_height * kernel_width, N = (Index)out_height * out_width;
  const Index image = blockIdx.z / groups, group = blockIdx.z % groups;
  x += (image * groups + group) * channels * height * width;
  w += group * M * K;
  y += (image * groups + group) * M * N;
  bias += biased ? group * M : 0;
  const auto a_at = [&](Index m, Index k) { return decode(w[m * K + k]); };
  const auto b_at = [&](Index n, Index k) {
    const int tap = (int)(k % (kernel_height * kernel_width)), channel = (int)(k / (kernel_height * kernel_width));
    const Index row = n / out_width * row_step + tap / kernel_width - top;
    const Index column = n % out_width * column_step + tap % kernel_width - left;
    const bool inside = row >= 0 && row < height && column >= 0 && column < width;
    return inside ? decode(x[((Index)channel * height + row) * width + column]) : 0.0f;
  };
  const auto put = [&](Index m, Index n, float sum) {
    y[m * N + n] = encode<@T@>(biased ? sum + decode(bias[m]) : sum);
  };
@tile@}
)";

class TiledConvolution final : public runtime::Kernel {
 public:
  TiledConvolution(CudaKernel kernel, const ir::OpView& op) : kernel_(kernel), op_(op) {}

  Status run(const runtime::KernelArgs& args) override {
    const Shape &x = op_.in(0).shape, &w = op_.in(1).shape, &y = op_.out().shape;
    if (y.numel() == 0) return ok();
    const auto integer = [](std::int64_t n) { return static_cast<std::int32_t>(n); };
    const std::int64_t groups = op_.i64("groups"), m = y.dim(1) / groups;
    const auto &strides = op_.i64s("strides"), &pads = op_.i64s("pads");
    const bool biased = op_.has(2);
    return kernel_.launch(
        {ceil_div(y.dim(2) * y.dim(3), kTileSize), ceil_div(m, kTileSize), x.dim(0) * groups},
        {args.in[0].buffer, args.in[1].buffer, args.in[biased ? 2 : 0].buffer, args.out[0].buffer,
         integer(groups), integer(w.dim(1)), m, integer(x.dim(2)), integer(x.dim(3)), integer(w.dim(2)),
         integer(w.dim(3)), integer(y.dim(2)), integer(y.dim(3)), strides[0], strides[1], pads[0], pads[1],
         std::int32_t{biased}});
  }

 private:
  CudaKernel kernel_;
  const ir::OpView& op_;
};

std::array<std::int64_t, 4> four(const Shape& shape) {
  return {shape.dim(0), shape.dim(1), shape.dim(2), shape.dim(3)};
}

}  // namespace

MakeResult make_dnn_conv2d(const KernelRequest& request) {
  const ir::OpView& op = *request.op;
  DIF_TRY(computable(op));
  if (op.out().numel() == 0 || op.in(1).numel() == 0 || op.in(0).numel() == 0)
    return runtime::declined("cuDNN takes no empty tensors");
  const auto &strides = op.i64s("strides"), &pads = op.i64s("pads");
  const std::int64_t largest =
      std::max({*std::ranges::max_element(strides), *std::ranges::max_element(pads)});
  if (largest > 1 << 20) return runtime::declined("a stride or pad of {}", largest);
  CudaDevice& device = device_of(request.device);
  DIF_ASSIGN(void* const handle, device.dnn());
  const ConvolutionShape shape = {.dtype = op.in(0).dtype,
                                  .x = four(op.in(0).shape),
                                  .w = four(op.in(1).shape),
                                  .y = four(op.out().shape),
                                  .strides = {strides[0], strides[1]},
                                  .pads = {pads[0], pads[1], pads[2], pads[3]},
                                  .channels_last = false,
                                  .biased = op.has(2)};
  DIF_ASSIGN(auto graph, build_convolution(handle, shape));
  return std::make_unique<DnnConvolution>(std::move(graph));
}

MakeResult make_tiled_conv2d(const KernelRequest& request) {
  const ir::OpView& op = *request.op;
  DIF_TRY(computable(op));
  const std::int64_t planes = op.in(0).dim(0) * op.i64("groups");
  if (planes > 65535) return runtime::declined("{} images and groups are more than one launch takes", planes);
  DIF_ASSIGN(const CudaKernel kernel,
             device_of(request.device)
                 .kernel(prelude() + fill(kText, {{"T", type_name(op.in(0).dtype)}, {"tile", tile_text()}}),
                         "convolve", kTileThreads));
  return std::make_unique<TiledConvolution>(kernel, op);
}

}  // namespace dif::cuda
