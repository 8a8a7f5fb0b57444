#include <limits>

#include "backends/cuda/kernels.h"
#include "ops/group_norm/group_norm.op.h"
#include "ops/silu/silu.op.h"

namespace dif::cuda {

namespace {

constexpr int kThreads = 256;
/// Vectors that each thread of `moments` keeps in registers, and that each thread of `apply` works through.
constexpr std::int64_t kDepth = 8;
constexpr std::int64_t kMostGroups = 1024;

/// A thread stands for V channels and walks over positions; V channels are S groups or lie in one.
///
/// moments: of the groups in one chunk of positions, about their means there. The chunk is read once.
/// join: those of all chunks, and from them what each channel is multiplied with and what is added to it.
/// apply: that, in one pass.
constexpr const char* kText = R"(
template <class Value> inline void sum_groups(const Value (&mine)[@S@], float* part, int row, int lane, int lanes,
                                              int rows, int groups, float* sums) {
  const int width = lanes * @S@, each = width / groups;
  __syncthreads();
  if (row < rows)
#pragma unroll
    for (int s = 0; s < @S@; ++s) part[row * width + lane * @S@ + s] = mine[s];
  __syncthreads();
  for (int g = threadIdx.x; g < groups; g += 256) {
    float sum = 0;
    for (int r = 0; r < rows; ++r)
      for (int i = 0; i < each; ++i) sum += part[r * width + g * each + i];
    sums[g] = sum;
  }
  __syncthreads();
}

extern "C" __global__ void __launch_bounds__(256)
moments(const @T@* x, float2* found, Index positions, int channels, int groups, int chunks) {
  __shared__ float part[256 * @S@], means[1024], squares[1024];
  const int lanes = channels / @V@, rows = 256 / lanes, lane = threadIdx.x % lanes, row = threadIdx.x / lanes;
  const Index first = (Index)blockIdx.x * (rows * @depth@);
  const int n = row < rows ? (int)min((Index)(rows * @depth@), positions - first) : 0;
  const int count = (int)min((Index)(rows * @depth@), positions - first) * (channels / groups);
  x += ((Index)blockIdx.y * positions + first) * channels + lane * @V@;
  alignas(16) @T@ v[@depth@][@V@];
#pragma unroll
  for (int k = 0; k < @depth@; ++k)
    if (row + k * rows < n) load<@V@>(x + (Index)(row + k * rows) * channels, v[k]);
  float mine[@S@] = {};
#pragma unroll
  for (int k = 0; k < @depth@; ++k)
    if (row + k * rows < n)
#pragma unroll
      for (int j = 0; j < @V@; ++j) mine[j / (@V@ / @S@)] += decode(v[k][j]);
  sum_groups(mine, part, row, lane, lanes, rows, groups, means);
  for (int g = threadIdx.x; g < groups; g += 256) means[g] = means[g] / count;
  __syncthreads();
  const int mine0 = lane * @V@ / (channels / groups);
  float centre[@S@];
#pragma unroll
  for (int s = 0; s < @S@; ++s) {
    centre[s] = means[mine0 + s];
    mine[s] = 0;
  }
#pragma unroll
  for (int k = 0; k < @depth@; ++k)
    if (row + k * rows < n)
#pragma unroll
      for (int j = 0; j < @V@; ++j) {
        const float d = decode(v[k][j]) - centre[j / (@V@ / @S@)];
        mine[j / (@V@ / @S@)] += d * d;
      }
  sum_groups(mine, part, row, lane, lanes, rows, groups, squares);
  for (int g = threadIdx.x; g < groups; g += 256)
    found[((Index)blockIdx.y * groups + g) * chunks + blockIdx.x] = make_float2(means[g], squares[g]);
}

extern "C" __global__ void __launch_bounds__(256)
join(const float2* found, const @T@* w, const @T@* bias, float2* scales, Index positions, int channels, int groups,
     int chunks, float eps) {
  __shared__ float scratch[32];
  const int each = channels / groups, lanes = channels / @V@, chunk = 256 / lanes * @depth@;
  const int group = blockIdx.x, first = group * each;
  found += ((Index)blockIdx.y * groups + group) * chunks;
  const float last = (float)(positions - (Index)(chunks - 1) * chunk), size = (float)positions;
  float sum = 0;
  for (int c = threadIdx.x; c < chunks; c += 256) sum += found[c].x * ((c == chunks - 1 ? last : (float)chunk) / size);
  const float mean = block_sum(sum, scratch);
  float squares = 0;
  for (int c = threadIdx.x; c < chunks; c += 256) {
    const float2 part = found[c];
    const float d = part.x - mean;
    squares += part.y / each + d * d * (c == chunks - 1 ? last : (float)chunk);
  }
  squares = block_sum(squares, scratch);
  const float scale = 1.0f / sqrtf(squares / size + eps);
  for (int c = first + threadIdx.x; c < first + each; c += 256) {
    const float factor = scale * decode(w[c]);
    scales[(Index)blockIdx.y * channels + c] = make_float2(factor, decode(bias[c]) - mean * factor);
  }
}

extern "C" __global__ void __launch_bounds__(256)
apply(const @T@* x, @T@* y, const float2* scales, Index positions, int channels) {
  const int lanes = channels / @V@, rows = 256 / lanes, lane = threadIdx.x % lanes, row = threadIdx.x / lanes;
  if (row >= rows) return;
  scales += (Index)blockIdx.y * channels + lane * @V@;
  float2 s[@V@];
#pragma unroll
  for (int j = 0; j < @V@; ++j) s[j] = scales[j];
  const Index first = (Index)blockIdx.x * (rows * @depth@) + row;
  const Index start = ((Index)blockIdx.y * positions + first) * channels + lane * @V@;
  const Index step = (Index)rows * channels;
  x += start;
  y += start;
  alignas(16) @T@ v[@depth@][@V@];
#pragma unroll
  for (int k = 0; k < @depth@; ++k)
    if (first + k * rows < positions) load<@V@>(x + k * step, v[k]);
#pragma unroll
  for (int k = 0; k < @depth@; ++k)
    if (first + k * rows < positions) {
#pragma unroll
      for (int j = 0; j < @V@; ++j) {
        v[k][j] = encode<@T@>(fmaf(decode(v[k][j]), s[j].x, s[j].y));
@then@      }
      store<@V@>(y + k * step, v[k]);
    }
}
)";

class GroupNormChannelsLast final : public runtime::Kernel {
 public:
  GroupNormChannelsLast(const ops::GroupNormSizes& sizes, std::int64_t rows, float eps)
      : sizes_(sizes), chunks_(ceil_div(sizes.positions, rows * kDepth)), eps_(eps) {}

  Status prepare(CudaDevice& device, const std::string& text) {
    DIF_ASSIGN(moments_, device.kernel(text, "moments", kThreads));
    DIF_ASSIGN(join_, device.kernel(text, "join", kThreads));
    DIF_ASSIGN(apply_, device.kernel(text, "apply", kThreads));
    return ok();
  }

  /// What is multiplied and added, then the moments of chunks.
  std::uint64_t workspace_bytes() const override {
    return static_cast<std::uint64_t>(sizes_.images * (sizes_.channels + sizes_.groups * chunks_)) * 2 *
           sizeof(float);
  }

  Status run(const runtime::KernelArgs& args) override {
    const auto integer = [](std::int64_t n) { return static_cast<std::int32_t>(n); };
    const runtime::BufferView x = args.in[0].buffer, scales = args.workspace;
    runtime::BufferView found = scales;
    found.offset += static_cast<std::uint64_t>(sizes_.images * sizes_.channels) * 2 * sizeof(float);
    const std::int32_t channels = integer(sizes_.channels), groups = integer(sizes_.groups),
                       chunks = integer(chunks_);
    DIF_TRY(
        moments_.launch({chunks_, sizes_.images}, {x, found, sizes_.positions, channels, groups, chunks}));
    DIF_TRY(join_.launch({sizes_.groups, sizes_.images}, {found, args.in[1].buffer, args.in[2].buffer, scales,
                                                          sizes_.positions, channels, groups, chunks, eps_}));
    return apply_.launch({chunks_, sizes_.images},
                         {x, args.out[0].buffer, scales, sizes_.positions, channels});
  }

 private:
  CudaKernel moments_, join_, apply_;
  const ops::GroupNormSizes sizes_;
  const std::int64_t chunks_;
  const float eps_;
};

MakeResult make(runtime::Device* device, const ir::OpView& op, bool activated) {
  DIF_TRY(computable(op));
  const ops::GroupNormSizes sizes = ops::group_norm_sizes(op);
  if (!sizes.channels_last) return runtime::declined("channels first");
  if (op.in(0).numel() == 0) return runtime::declined("there is nothing to normalise");
  if (sizes.groups > kMostGroups) return runtime::declined("{} groups > {}", sizes.groups, kMostGroups);
  if (sizes.images > 65535)
    return runtime::declined("{} images are more than one launch takes", sizes.images);
  const std::int64_t each = sizes.group_channels();
  std::int64_t vector = 16 / static_cast<std::int64_t>(dtype_size(op.in(0).dtype));
  while (sizes.channels % vector != 0 || (each % vector != 0 && vector % each != 0)) vector /= 2;
  const std::int64_t lanes = sizes.channels / vector;
  if (lanes > kThreads) return runtime::declined("{} channels are more than a block takes", sizes.channels);
  const std::int64_t rows = kThreads / lanes;
  if (ceil_div(sizes.positions, rows * kDepth) > std::numeric_limits<std::int32_t>::max())
    return runtime::declined("{} positions", sizes.positions);
  const std::string type = type_name(op.in(0).dtype);
  const std::string then =
      activated ? fmt::format("        const float a = decode(v[k][j]);\n        v[k][j] = encode<{}>({});\n",
                              type, silu_text(op.in(0).dtype, "a"))
                : "";
  const std::string text =
      prelude() + fill(kText, {{"T", type},
                               {"V", fmt::format("{}", vector)},
                               {"S", fmt::format("{}", std::max<std::int64_t>(1, vector / each))},
                               {"depth", fmt::format("{}", kDepth)},
                               {"then", then}});
  auto kernel = std::make_unique<GroupNormChannelsLast>(sizes, rows, op.f32("eps"));
  DIF_TRY(kernel->prepare(device_of(device), text));
  return kernel;
}

}  // namespace

MakeResult make_group_norm_channels_last(const KernelRequest& request) {
  return make(request.device, *request.op, false);
}

MakeResult make_group_norm_group(const runtime::GroupRequest& request) {
  const runtime::GroupOp &norm = request.ops[0], &then = request.ops[1];
  if (&norm.op->def() != &ops::kGroupNorm) return runtime::declined("it does not begin with a group_norm");
  if (!request.in_pitches.empty() || !request.out_pitches.empty())
    return runtime::declined("its tensors do not lie densely");
  if (request.ops.size() != 2 || &then.op->def() != &ops::kSilu || norm.output != runtime::kNoOutput)
    return runtime::declined("after a group_norm only silu is fused");
  for (std::uint32_t i = 0; i < norm.operands.size(); ++i)
    if (norm.operands[i].index != i) return runtime::declined("an operand stands twice");
  return make(request.device, *norm.op, true);
}

}  // namespace dif::cuda
