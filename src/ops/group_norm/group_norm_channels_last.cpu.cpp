#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "backends/cpu/convert.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/parallel.h"
#include "ops/group_norm/group_norm.op.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/group_norm/group_norm_channels_last.cpu.cpp"
#include "hwy/foreach_target.h"

#include "backends/cpu/vector-inl.h"

// Channels run along the vector lanes. Moments are found per channel and chunk of positions, and joined in
// the order of channels and chunks.

#ifndef DIF_CPU_GROUP_NORM_CHANNELS_LAST_ONCE_
#define DIF_CPU_GROUP_NORM_CHANNELS_LAST_ONCE_
namespace dif::cpu {

/// Some positions of one image.
struct PositionsRun {
  DType dtype = DType::kF32;
  std::int64_t channels = 0, positions = 0;
  const void* x = nullptr;
  void* y = nullptr;
};

/// What a channel is scaled by: y = ((x - center) - rest) * scale + bias, one array of each.
struct ChannelScales {
  const float *center, *rest, *scale, *bias;
};

}  // namespace dif::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace dif::cpu::HWY_NAMESPACE {

/// Calls body(first channel, load, store) for vectors of channels; `load` reads lanes that are there.
template <class T, class Body>
HWY_INLINE void for_channel_vectors(std::int64_t channels, Body body) {
  const F d;
  std::int64_t c = 0;
  for (; c + static_cast<std::int64_t>(kLanes) <= channels; c += static_cast<std::int64_t>(kLanes))
    body(
        c, [&](const auto* p) { return load(d, p); }, [&](VF v, auto* p) { store(d, v, p); });
  const auto left = static_cast<std::size_t>(channels - c);
  if (left != 0)
    body(
        c, [&](const auto* p) { return load_n(d, p, left); }, [&](VF v, auto* p) { store_n(d, v, p, left); });
}

/// The mean of each channel as a sum of two numbers, more exact than one, and the sum of (x - mean)^2.
static void channel_moments(const PositionsRun& run, float* mean, float* rest, float* squares) {
  with_storage(run.dtype, [&]<class T>(T) {
    const F d;
    const VF count = hn::Set(d, static_cast<float>(run.positions));
    for_channel_vectors<T>(run.channels, [&](std::int64_t c, auto read, auto write) {
      const T* const x = static_cast<const T*>(run.x) + c;
      VF sum = hn::Zero(d), apart = sum, square = sum;
      for (std::int64_t p = 0; p < run.positions; ++p) sum = hn::Add(sum, read(x + p * run.channels));
      const VF about = hn::Div(sum, count);
      for (std::int64_t p = 0; p < run.positions; ++p) {
        const VF v = hn::Sub(read(x + p * run.channels), about);
        apart = hn::Add(apart, v);
        square = hn::MulAdd(v, v, square);
      }
      // What rounding put into the mean comes off again.
      const VF off = hn::Div(apart, count);
      write(about, mean + c);
      write(off, rest + c);
      write(hn::Sub(square, hn::Mul(off, apart)), squares + c);
    });
  });
}

static void scale_channels(const PositionsRun& run, const ChannelScales& s) {
  with_storage(run.dtype, [&]<class T>(T) {
    for_channel_vectors<T>(run.channels, [&](std::int64_t c, auto read, auto write) {
      const T* const x = static_cast<const T*>(run.x) + c;
      T* const y = static_cast<T*>(run.y) + c;
      const VF center = read(s.center + c), rest = read(s.rest + c), scale = read(s.scale + c),
               bias = read(s.bias + c);
      for (std::int64_t p = 0; p < run.positions; ++p) {
        const VF v = hn::Sub(hn::Sub(read(x + p * run.channels), center), rest);
        write(hn::Add(hn::Mul(v, scale), bias), y + p * run.channels);
      }
    });
  });
}

}  // namespace dif::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dif::cpu {

HWY_EXPORT(channel_moments);
HWY_EXPORT(scale_channels);

namespace {

class GroupNormChannelsLast final : public runtime::Kernel {
 public:
  explicit GroupNormChannelsLast(const ir::OpView& op)
      : sizes_(ops::group_norm_sizes(op)),
        dtype_(op.in(0).dtype),
        eps_(op.f32("eps")),
        chunk_(std::max<std::int64_t>(1, kBlockElements / sizes_.channels)),
        chunks_(ceil_div(sizes_.positions, chunk_)) {}

  /// Of each chunk the moments of its channels, three arrays, then of each image four arrays of scales.
  std::uint64_t workspace_bytes() const override {
    return static_cast<std::uint64_t>(sizes_.images * sizes_.channels * (3 * chunks_ + 4)) * sizeof(float);
  }

  Status run(const runtime::KernelArgs& args) override {
    auto* const found = reinterpret_cast<float*>(args.workspace.pointer());
    float* const scales = found + sizes_.images * chunks_ * 3 * sizes_.channels;
    const auto moments = HWY_DYNAMIC_DISPATCH(channel_moments);
    const auto apply = HWY_DYNAMIC_DISPATCH(scale_channels);
    for_blocks(sizes_.images * chunks_, [&](std::int64_t block) {
      float* const mean = found + block * 3 * sizes_.channels;
      moments(positions_of(args, block), mean, mean + sizes_.channels, mean + 2 * sizes_.channels);
    });
    for (std::int64_t image = 0; image < sizes_.images; ++image) join(args, image, found, scales);
    for_blocks(sizes_.images * chunks_, [&](std::int64_t block) {
      const float* const s = scales + block / chunks_ * 4 * sizes_.channels;
      const std::int64_t c = sizes_.channels;
      apply(positions_of(args, block), {s, s + c, s + 2 * c, s + 3 * c});
    });
    return ok();
  }

 private:
  PositionsRun positions_of(const runtime::KernelArgs& args, std::int64_t block) const {
    const std::int64_t image = block / chunks_, first = block % chunks_ * chunk_;
    const auto at =
        static_cast<std::size_t>((image * sizes_.positions + first) * sizes_.channels) * dtype_size(dtype_);
    return {dtype_, sizes_.channels, std::min(chunk_, sizes_.positions - first),
            args.in[0].data<std::byte>() + at, args.out[0].data<std::byte>() + at};
  }

  /// The scales of an image's channels, by the formula of Chan, Golub & LeVeque (1983).
  void join(const runtime::KernelArgs& args, std::int64_t image, const float* found, float* scales) const {
    const std::int64_t channels = sizes_.channels;
    std::vector<float> w(static_cast<std::size_t>(channels)), bias(w.size());
    convert(dtype_, args.in[1].data<std::byte>(), DType::kF32, w.data(), channels);
    convert(dtype_, args.in[2].data<std::byte>(), DType::kF32, bias.data(), channels);
    float* const out = scales + image * 4 * channels;
    for (std::int64_t first = 0; first < channels; first += sizes_.group_channels()) {
      double n = 0, mean = 0, squares = 0;
      for (std::int64_t chunk = 0; chunk < chunks_; ++chunk) {
        const float* const part = found + (image * chunks_ + chunk) * 3 * channels;
        const auto more = static_cast<double>(std::min(chunk_, sizes_.positions - chunk * chunk_));
        for (std::int64_t c = first; c < first + sizes_.group_channels(); ++c) {
          const double apart = static_cast<double>(part[c]) + static_cast<double>(part[channels + c]) - mean;
          mean += apart * more / (n + more);
          squares += static_cast<double>(part[2 * channels + c]) + apart * apart * n * more / (n + more);
          n += more;
        }
      }
      const double variance = std::max(0.0, squares / n);
      const auto factor = static_cast<float>(1.0 / std::sqrt(variance + static_cast<double>(eps_)));
      const auto center = static_cast<float>(mean);
      for (std::int64_t c = first; c < first + sizes_.group_channels(); ++c) {
        out[c] = center;
        out[channels + c] = static_cast<float>(mean - static_cast<double>(center));
        out[2 * channels + c] = factor * w[static_cast<std::size_t>(c)];
        out[3 * channels + c] = bias[static_cast<std::size_t>(c)];
      }
    }
  }

  const ops::GroupNormSizes sizes_;
  const DType dtype_;
  const float eps_;
  const std::int64_t chunk_, chunks_;
};

}  // namespace

MakeResult make_group_norm_channels_last(const KernelRequest& request) {
  if (request.op->in(0).numel() == 0) return runtime::declined("there is nothing to normalise");
  if (!request.op->flag("channels_last")) return runtime::declined("channels first");
  return std::make_unique<GroupNormChannelsLast>(*request.op);
}

}  // namespace dif::cpu
#endif
