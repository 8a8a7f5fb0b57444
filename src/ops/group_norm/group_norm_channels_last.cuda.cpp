#include <limits>

#include "backends/cuda/kernels.h"
#include "ops/group_norm/group_norm.op.h"
#include "ops/silu/silu.op.h"

namespace dif::cuda {

namespace {

constexpr int kThreads = 256;
/// Vectors that each thread of `moments` has at a time, and that each thread of `apply` works through.
constexpr std::int64_t kDepth = 8;
/// Blocks of `moments` for an image: three for each of the 132 multiprocessors of the largest Hopper. The
/// order of sums depends on that number, so it is the same on every device.
constexpr std::int64_t kMostBlocks = 396;
constexpr std::int64_t kMostGroups = 1024;

/// A thread stands for V channels and walks over positions; V channels are S groups or lie in one.
///
/// moments: a block walks over chunks of positions, from the last to the first; each thread joins what it saw
/// (Chan et al. 1979) and the block at its end what its threads saw. x is read once.
/// join: the same for blocks, and from it what each channel is multiplied with and what is added to it.
/// apply: that, in one pass that begins where moments ended: so much of x is in the cache still.
constexpr const char* kText = R"(
// Adds numbers of `count` positions of which each has `each` elements: their mean and squared distances from it.
template <int S> inline void add_moments(float (&mean)[S], float (&squares)[S], float n, const float (&more_mean)[S],
                                         const float (&more_squares)[S], float count, float each) {
  const float share = count / (n + count), both = n * share * each;
#pragma unroll
  for (int s = 0; s < S; ++s) {
    const float d = more_mean[s] - mean[s];
    mean[s] = fmaf(d, share, mean[s]);
    squares[s] += fmaf(d * d, both, more_squares[s]);
  }
}

// Of n vectors of a thread.
template <int N> inline void moments_of(const @T@ (&v)[N][@V@], float (&mean)[@S@], float (&squares)[@S@]) {
#pragma unroll
  for (int s = 0; s < @S@; ++s) mean[s] = squares[s] = 0;
#pragma unroll
  for (int k = 0; k < N; ++k)
#pragma unroll
    for (int j = 0; j < @V@; ++j) mean[j / (@V@ / @S@)] += decode(v[k][j]);
#pragma unroll
  for (int s = 0; s < @S@; ++s) mean[s] *= 1.0f / (N * (@V@ / @S@));
#pragma unroll
  for (int k = 0; k < N; ++k)
#pragma unroll
    for (int j = 0; j < @V@; ++j) {
      const float d = decode(v[k][j]) - mean[j / (@V@ / @S@)];
      squares[j / (@V@ / @S@)] = fmaf(d, d, squares[j / (@V@ / @S@)]);
    }
}

extern "C" __global__ void __launch_bounds__(256)
moments(const @T@* x, float2* found, Index positions, int channels, int groups, int chunks) {
  __shared__ float means[256 * @S@], distances[256 * @S@], counts[256];
  const int lanes = channels / @V@, rows = 256 / lanes, lane = threadIdx.x % lanes, row = threadIdx.x / lanes;
  const Index step = (Index)rows * channels;
  x += (Index)blockIdx.y * positions * channels + lane * @V@;
  float n = 0, mean[@S@] = {}, squares[@S@] = {};
  if (row < rows)
    for (int c = blockIdx.x; c < chunks; c += gridDim.x) {
      const Index first = (Index)(chunks - 1 - c) * (rows * @depth@) + row;
      const @T@* p = x + first * channels;
      float more_mean[@S@], more_squares[@S@];
      if (first + (@depth@ - 1) * rows < positions) {
        alignas(16) @T@ v[@depth@][@V@];
#pragma unroll
        for (int k = 0; k < @depth@; ++k) load<@V@>(p + k * step, v[k]);
        moments_of(v, more_mean, more_squares);
        add_moments(mean, squares, n, more_mean, more_squares, @depth@.0f, @V@.0f / @S@);
        n += @depth@;
      } else {
        for (Index at = first; at < positions; at += rows, p += step) {
          alignas(16) @T@ v[1][@V@];
          load<@V@>(p, v[0]);
          moments_of(v, more_mean, more_squares);
          add_moments(mean, squares, n, more_mean, more_squares, 1.0f, @V@.0f / @S@);
          n += 1;
        }
      }
    }
  const int width = lanes * @S@, parts = width / groups;
  if (row < rows) {
    counts[row] = n;
#pragma unroll
    for (int s = 0; s < @S@; ++s) {
      means[row * width + lane * @S@ + s] = mean[s];
      distances[row * width + lane * @S@ + s] = squares[s];
    }
  }
  __syncthreads();
  // Eight threads for each group.
  const float each = (float)(channels / width);
  const int part = threadIdx.x % 8;
  for (int g = threadIdx.x / 8; g < groups; g += 32) {
    float count = 0, sum = 0, square = 0;
    for (int r = part; r < rows; r += 8) {
      float of_row = 0;
      for (int i = 0; i < parts; ++i) of_row += means[r * width + g * parts + i];
      count += counts[r];
      sum = fmaf(of_row, counts[r], sum);
    }
    const float centre = lanes_sum<8>(sum) / (lanes_sum<8>(count) * parts);
    for (int r = part; r < rows; r += 8)
      for (int i = 0; i < parts; ++i) {
        const float d = means[r * width + g * parts + i] - centre;
        square += fmaf(d * d, counts[r] * each, distances[r * width + g * parts + i]);
      }
    square = lanes_sum<8>(square);
    if (part == 0) found[((Index)blockIdx.y * groups + g) * gridDim.x + blockIdx.x] = make_float2(centre, square);
  }
}

extern "C" __global__ void __launch_bounds__(256)
join(const float2* found, const @T@* w, const @T@* bias, float2* scales, Index positions, int channels, int groups,
     int chunks, int blocks, float eps) {
  __shared__ float scratch[32];
  const int each = channels / groups, lanes = channels / @V@, chunk = 256 / lanes * @depth@;
  const int group = blockIdx.x, first = group * each;
  found += ((Index)blockIdx.y * groups + group) * blocks;
  // The first block had the last chunk, which may be shorter.
  const float size = (float)positions, missing = (float)((Index)chunks * chunk - positions);
  const auto count = [&](int b) { return (float)((chunks - b + blocks - 1) / blocks) * chunk - (b == 0 ? missing : 0); };
  float sum = 0;
  for (int b = threadIdx.x; b < blocks; b += 256) sum += found[b].x * (count(b) / size);
  const float mean = block_sum(sum, scratch);
  float squares = 0;
  for (int b = threadIdx.x; b < blocks; b += 256) {
    const float2 part = found[b];
    const float d = part.x - mean;
    squares += part.y / each + d * d * count(b);
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
      float a[@V@];
#pragma unroll
      for (int j = 0; j < @V@; ++j) a[j] = fmaf(decode(v[k][j]), s[j].x, s[j].y);
@then@#pragma unroll
      for (int j = 0; j < @V@; ++j) v[k][j] = encode<@T@>(a[j]);
      store<@V@>(y + k * step, v[k]);
    }
}
)";

class GroupNormChannelsLast final : public runtime::Kernel {
 public:
  GroupNormChannelsLast(const ops::GroupNormSizes& sizes, std::int64_t rows, float eps)
      : sizes_(sizes),
        chunks_(ceil_div(sizes.positions, rows * kDepth)),
        blocks_(std::min(chunks_, kMostBlocks)),
        eps_(eps) {}

  Status prepare(CudaDevice& device, const std::string& text) {
    DIF_ASSIGN(moments_, device.kernel(text, "moments", kThreads));
    DIF_ASSIGN(join_, device.kernel(text, "join", kThreads));
    DIF_ASSIGN(apply_, device.kernel(text, "apply", kThreads));
    return ok();
  }

  /// What is multiplied and added, then the moments that blocks found.
  std::uint64_t workspace_bytes() const override {
    return static_cast<std::uint64_t>(sizes_.images * (sizes_.channels + sizes_.groups * blocks_)) * 2 *
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
        moments_.launch({blocks_, sizes_.images}, {x, found, sizes_.positions, channels, groups, chunks}));
    DIF_TRY(join_.launch({sizes_.groups, sizes_.images},
                         {found, args.in[1].buffer, args.in[2].buffer, scales, sizes_.positions, channels,
                          groups, chunks, integer(blocks_), eps_}));
    return apply_.launch({chunks_, sizes_.images},
                         {x, args.out[0].buffer, scales, sizes_.positions, channels});
  }

 private:
  CudaKernel moments_, join_, apply_;
  const ops::GroupNormSizes sizes_;
  const std::int64_t chunks_, blocks_;
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
  const std::string then = activated ? fmt::format(
                                           "      round_all<{}>(a);\n#pragma unroll\n"
                                           "      for (int j = 0; j < {}; ++j) a[j] = {};\n",
                                           type, vector, silu_text(op.in(0).dtype, "a[j]"))
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
