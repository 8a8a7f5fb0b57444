#include <algorithm>

#include "backends/cuda/kernels.h"
#include "ops/group_norm/group_norm.op.h"

namespace dif::cuda {

namespace {

constexpr int kThreads = 256;
/// Elements whose moments one block finds; a longer group takes several blocks.
constexpr std::int64_t kChunk = 16384;
constexpr std::int64_t kElementsOfBlock = 8192;

/// Moments of a chunk about its own mean; the apply kernel joins those of a group in their order, by the
/// formula of Chan, Golub and LeVeque (1979).
constexpr const char* kText = R"(
// Where a group starts, and where its element i lies from there: one after the other, or channels innermost.
inline Index start_of(Index group, Index size, int groups, int group_channels) {
  return @last@ ? group / groups * size * groups + group % groups * group_channels : group * size;
}
inline Index place_of(Index i, int groups, int group_channels) {
  return @last@ ? i / group_channels * groups * group_channels + i % group_channels : i;
}

extern "C" __global__ void __launch_bounds__(256)
moments(const @T@* x, float2* found, Index size, int chunks, int groups, int group_channels) {
  __shared__ float scratch[32];
  const Index first = (Index)blockIdx.x * @chunk@;
  x += start_of(blockIdx.y, size, groups, group_channels);
  const int n = (int)min((Index)@chunk@, size - first);
  float sum = 0, squares = 0;
  for (int i = threadIdx.x; i < n; i += 256) sum += decode(x[place_of(first + i, groups, group_channels)]);
  const float mean = block_sum(sum, scratch) / n;
  for (int i = threadIdx.x; i < n; i += 256) {
    const float d = decode(x[place_of(first + i, groups, group_channels)]) - mean;
    squares += d * d;
  }
  squares = block_sum(squares, scratch);
  if (threadIdx.x == 0) found[(Index)blockIdx.y * chunks + blockIdx.x] = make_float2(mean, squares);
}

extern "C" __global__ void __launch_bounds__(256)
apply(const @T@* x, const @T@* w, const @T@* bias, @T@* y, const float2* found, Index size, int chunks, int groups,
      int group_channels, Index positions, float eps) {
  __shared__ float known[2];
  const Index group = blockIdx.y;
  if (threadIdx.x == 0) {
    float n = 0, mean = 0, squares = 0;
    for (int c = 0; c < chunks; ++c) {
      const float2 part = found[group * chunks + c];
      const float more = (float)min((Index)@chunk@, size - (Index)c * @chunk@), d = part.x - mean, all = n + more;
      mean += d * (more / all);
      squares += part.y + d * d * (n * more / all);
      n = all;
    }
    known[0] = mean;
    known[1] = 1.0f / sqrtf(squares / n + eps);
  }
  __syncthreads();
  const float mean = known[0], scale = known[1];
  const Index end = min(size, ((Index)blockIdx.x + 1) * @per_block@);
  x += start_of(group, size, groups, group_channels);
  y += start_of(group, size, groups, group_channels);
  for (Index i = (Index)blockIdx.x * @per_block@ + threadIdx.x * @V@; i < end; i += 256 * @V@) {
    const Index at = place_of(i, groups, group_channels);
    const int channel = (int)(group % groups) * group_channels + (int)(@last@ ? i % group_channels : i / positions);
    const float factor = decode(w[channel]), shift = decode(bias[channel]);
    alignas(16) @T@ v[@V@];
    load<@V@>(x + at, v);
#pragma unroll
    for (int k = 0; k < @V@; ++k) v[k] = encode<@T@>((decode(v[k]) - mean) * scale * factor + shift);
    store<@V@>(y + at, v);
  }
}
)";

class GroupNorm final : public runtime::Kernel {
 public:
  GroupNorm(CudaKernel moments, CudaKernel apply, const ir::OpView& op)
      : moments_(moments),
        apply_(apply),
        sizes_(ops::group_norm_sizes(op)),
        n_groups_(sizes_.images * sizes_.groups),
        size_(sizes_.group_channels() * sizes_.positions),
        eps_(op.f32("eps")) {}

  Status run(const runtime::KernelArgs& args) override {
    if (args.out[0].type->numel() == 0) return ok();
    const auto chunks = static_cast<std::int32_t>(ceil_div(size_, kChunk));
    const auto groups = static_cast<std::int32_t>(sizes_.groups),
               channels = static_cast<std::int32_t>(sizes_.group_channels());
    DIF_TRY(moments_.launch({chunks, n_groups_},
                            {args.in[0].buffer, args.workspace, size_, chunks, groups, channels}));
    return apply_.launch({ceil_div(size_, kElementsOfBlock), n_groups_},
                         {args.in[0].buffer, args.in[1].buffer, args.in[2].buffer, args.out[0].buffer,
                          args.workspace, size_, chunks, groups, channels, sizes_.positions, eps_});
  }

  std::uint64_t workspace_bytes() const override {
    return static_cast<std::uint64_t>(n_groups_ * ceil_div(size_, kChunk)) * 2 * sizeof(float);
  }

 private:
  CudaKernel moments_, apply_;
  const ops::GroupNormSizes sizes_;
  const std::int64_t n_groups_, size_;
  const float eps_;
};

}  // namespace

MakeResult make_group_norm(const KernelRequest& request) {
  const ir::OpView& op = *request.op;
  DIF_TRY(computable(op));
  constexpr std::int64_t kMostGroups = 65535;
  const ops::GroupNormSizes sizes = ops::group_norm_sizes(op);
  const std::int64_t n_groups = sizes.images * sizes.groups;
  if (n_groups > kMostGroups)
    return runtime::declined("{} groups, at most {} are one launch", n_groups, kMostGroups);
  // V elements lie in one channel.
  std::int64_t vector = sizes.channels_last ? 1 : 16 / static_cast<std::int64_t>(dtype_size(op.in(0).dtype));
  while (sizes.positions % vector != 0) vector /= 2;
  const std::string text = prelude() + fill(kText, {{"T", type_name(op.in(0).dtype)},
                                                    {"V", fmt::format("{}", vector)},
                                                    {"last", sizes.channels_last ? "1" : "0"},
                                                    {"chunk", fmt::format("{}", kChunk)},
                                                    {"per_block", fmt::format("{}", kElementsOfBlock)}});
  CudaDevice& device = device_of(request.device);
  DIF_ASSIGN(const CudaKernel moments, device.kernel(text, "moments", kThreads));
  DIF_ASSIGN(const CudaKernel apply, device.kernel(text, "apply", kThreads));
  return std::make_unique<GroupNorm>(moments, apply, op);
}

}  // namespace dif::cuda
