#include <algorithm>

#include "backends/cuda/dnn_plans.h"
#include "backends/cuda/kernels.h"
#include "backends/cuda/tile_text.h"
#include "ops/add/add.op.h"
#include "ops/conv2d/conv2d.op.h"

namespace dif::cuda {

namespace {

class DnnConvolution final : public runtime::Kernel {
 public:
  /// `order`: which operand is which tensor of the graph, x, w, then bias and what is added, where there are
  /// such.
  DnnConvolution(std::shared_ptr<DnnGraph> graph, std::vector<std::size_t> order)
      : graph_(std::move(graph)), order_(std::move(order)) {}

  Status run(const runtime::KernelArgs& args) override {
    std::vector<runtime::BufferView> tensors;
    for (const std::size_t operand : order_) tensors.push_back(args.in[operand].buffer);
    tensors.insert(tensors.begin() + 2, args.out[0].buffer);
    return graph_->run(tensors, args.workspace);
  }
  std::uint64_t workspace_bytes() const override { return graph_->workspace_bytes(); }

 private:
  std::shared_ptr<DnnGraph> graph_;
  std::vector<std::size_t> order_;
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
  x += image * groups * channels * height * width + group * channels * (@last@ ? 1 : (Index)height * width);
  w += group * M * K;
  y += image * groups * M * N + group * M * (@last@ ? 1 : N);
  bias += biased ? group * M : 0;
  const int taps = kernel_height * kernel_width;
  const auto a_at = [&](Index m, Index k) { return decode(w[m * K + (@last@ ? k % taps * channels + k / taps : k)]); };
  const auto b_at = [&](Index n, Index k) {
    const int tap = (int)(k % taps), channel = (int)(k / taps);
    const Index row = n / out_width * row_step + tap / kernel_width - top;
    const Index column = n % out_width * column_step + tap % kernel_width - left;
    const bool inside = row >= 0 && row < height && column >= 0 && column < width;
    if (!inside) return 0.0f;
    return decode(@last@ ? x[(row * width + column) * (groups * channels) + channel]
                         : x[((Index)channel * height + row) * width + column]);
  };
  const auto put = [&](Index m, Index n, float sum) {
    y[@last@ ? n * (groups * M) + m : m * N + n] = encode<@T@>(biased ? sum + decode(bias[m]) : sum);
  };
@tile@}
)";

class TiledConvolution final : public runtime::Kernel {
 public:
  TiledConvolution(CudaKernel kernel, const ir::OpView& op) : kernel_(kernel), op_(op) {}

  Status run(const runtime::KernelArgs& args) override {
    if (op_.out().numel() == 0) return ok();
    const ops::Conv2dSizes s = ops::conv2d_sizes(op_);
    const auto integer = [](std::int64_t n) { return static_cast<std::int32_t>(n); };
    const auto &strides = op_.i64s("strides"), &pads = op_.i64s("pads");
    const bool biased = op_.has(2);
    return kernel_.launch(
        {ceil_div(s.ho * s.wo, kTileSize), ceil_div(s.group_co(), kTileSize), s.images * s.groups},
        {args.in[0].buffer, args.in[1].buffer, args.in[biased ? 2 : 0].buffer, args.out[0].buffer,
         integer(s.groups), integer(s.group_ci()), s.group_co(), integer(s.h), integer(s.w), integer(s.kh),
         integer(s.kw), integer(s.ho), integer(s.wo), strides[0], strides[1], pads[0], pads[1],
         std::int32_t{biased}});
  }

 private:
  CudaKernel kernel_;
  const ir::OpView& op_;
};

/// cuDNN loads a kernel when it is first launched, which takes longer than the kernel: that launch goes into
/// a recording that nobody plays. Where it does not work the first run loads.
void load_kernels(CudaDevice& device, DnnGraph& graph, std::size_t n_tensors) {
  const auto place = runtime::DeviceBuffer::create(device, 256);
  if (!place) return;
  const auto recording = device.begin_recording();
  if (!recording || !*recording) return;
  const std::vector<runtime::BufferView> tensors(n_tensors, place->view());
  const Status submitted = graph.run(tensors, place->view());
  const auto recorded = device.end_recording();
  (void)submitted;
  (void)recorded;
}

/// The graph of a convolution, with something of the result's size added at the end if `added`.
Result<std::shared_ptr<DnnGraph>> build_graph(runtime::Device* device, const ir::OpView& op, bool added) {
  DIF_TRY(computable(op));
  if (op.out().numel() == 0 || op.in(1).numel() == 0 || op.in(0).numel() == 0)
    return runtime::declined("cuDNN takes no empty tensors");
  const auto &strides = op.i64s("strides"), &pads = op.i64s("pads");
  const std::int64_t largest =
      std::max({*std::ranges::max_element(strides), *std::ranges::max_element(pads)});
  if (largest > 1 << 20) return runtime::declined("a stride or pad of {}", largest);
  DIF_ASSIGN(DnnPlans* const dnn, device_of(device).dnn());
  const ops::Conv2dSizes s = ops::conv2d_sizes(op);
  DIF_ASSIGN(auto graph, dnn->convolution({.dtype = op.in(0).dtype,
                                           .x = {s.images, s.ci, s.h, s.w},
                                           .w = {s.co, s.group_ci(), s.kh, s.kw},
                                           .y = {s.images, s.co, s.ho, s.wo},
                                           .strides = {strides[0], strides[1]},
                                           .pads = {pads[0], pads[1], pads[2], pads[3]},
                                           .channels_last = s.channels_last,
                                           .biased = op.has(2),
                                           .added = added}));
  if (graph.use_count() == 1)  // no other kernel has it yet
    load_kernels(device_of(device), *graph, 3 + std::size_t{op.has(2)} + std::size_t{added});
  return graph;
}

}  // namespace

MakeResult make_dnn_conv2d(const KernelRequest& request) {
  const ir::OpView& op = *request.op;
  DIF_ASSIGN(auto graph, build_graph(request.device, op, false));
  return std::make_unique<DnnConvolution>(
      std::move(graph), op.has(2) ? std::vector<std::size_t>{0, 1, 2} : std::vector<std::size_t>{0, 1});
}

MakeResult make_dnn_conv2d_group(const runtime::GroupRequest& request) {
  const ir::OpView& op = *request.ops[0].op;
  if (&op.def() != &ops::kConv2d) return runtime::declined("it does not begin with a convolution");
  if (!request.in_pitches.empty() || !request.out_pitches.empty())
    return runtime::declined("its tensors do not lie densely");
  const runtime::GroupOp& add = request.ops[1];
  if (request.ops.size() != 2 || &add.op->def() != &ops::kAdd || request.n_outputs != 1 ||
      request.ops[0].output != runtime::kNoOutput || add.operands[0].inside == add.operands[1].inside)
    return runtime::declined("after a convolution only one addition to its result is fused");
  const std::size_t other = add.operands[0].inside ? 1 : 0;
  if (add.op->in(other).numel() != op.out().numel())
    return runtime::declined("{} is added to {}", add.op->in(other), op.out());
  DIF_ASSIGN(auto graph, build_graph(request.device, op, true));
  std::vector<std::size_t> order;
  for (const runtime::GroupOperand& operand : request.ops[0].operands) order.push_back(operand.index);
  order.push_back(add.operands[other].index);
  return std::make_unique<DnnConvolution>(std::move(graph), std::move(order));
}

MakeResult make_tiled_conv2d(const KernelRequest& request) {
  const ir::OpView& op = *request.op;
  DIF_TRY(computable(op));
  const ops::Conv2dSizes sizes = ops::conv2d_sizes(op);
  const std::int64_t planes = sizes.images * sizes.groups;
  if (planes > 65535) return runtime::declined("{} images and groups are more than one launch takes", planes);
  DIF_ASSIGN(const CudaKernel kernel,
             device_of(request.device)
                 .kernel(prelude() + fill(kText, {{"T", type_name(op.in(0).dtype)},
                                                  {"last", sizes.channels_last ? "1" : "0"},
                                                  {"tile", tile_text()}}),
                         "convolve", kTileThreads));
  return std::make_unique<TiledConvolution>(kernel, op);
}

}  // namespace dif::cuda
