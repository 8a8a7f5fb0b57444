#include <algorithm>
#include <cstring>
#include <vector>

#include "backends/cpu/convert.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/storage.h"
#include "base/checked_math.h"
#include "ops/conv2d/conv2d.op.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/conv2d/conv2d_few_channels.cpu.cpp"
#include "hwy/foreach_target.h"

#include "backends/cpu/vector-inl.h"

// A convolution to a few channels, the last one of a picture decoder: pixels run along the vector lanes, so
// that no lane stands for a channel that is not there. Input pixels are read from a padded copy of a tile.

#ifndef DIF_CPU_FEW_CHANNELS_ONCE_
#define DIF_CPU_FEW_CHANNELS_ONCE_
namespace dif::cpu {

inline constexpr std::int64_t kMostChannels = 4;

struct FewChannelsRun {
  DType dtype = DType::kF32;
  std::int64_t ci = 0, h = 0, w = 0, co = 0, ho = 0, wo = 0, kh = 0, kw = 0, top = 0, left = 0;
  std::int64_t tile_rows = 0, tile_columns = 0;     ///< of the result
  std::int64_t stride = 0;                          ///< floats of a row of the padded copy
  const float *weights = nullptr, *bias = nullptr;  ///< [ci, kh, kw, co]; [co]
  const void* x = nullptr;
  void* y = nullptr;
};

}  // namespace dif::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace dif::cpu::HWY_NAMESPACE {

#if HWY_TARGET <= HWY_AVX3
inline constexpr std::int64_t kStripVectors = 4;
#else
inline constexpr std::int64_t kStripVectors = 2;
#endif
inline constexpr std::int64_t kStrip = kStripVectors * static_cast<std::int64_t>(kLanes);

static std::int64_t few_channels_strip() {
  return kStrip;
}

/// The input pixels that a tile of the result needs, as f32 with zeros around the image: [ci, rows, stride].
template <class T>
HWY_INLINE void copy_tile(const FewChannelsRun& run, const T* x, std::int64_t row, std::int64_t column,
                          std::int64_t n_rows, float* tile) {
  const std::int64_t first = column - run.left;
  const std::int64_t begin = std::max<std::int64_t>(first, 0), end = std::min(first + run.stride, run.w);
  const std::int64_t before = begin - first, n = std::max<std::int64_t>(end - begin, 0);
  for (std::int64_t c = 0; c < run.ci; ++c) {
    for (std::int64_t r = row - run.top; r < row - run.top + n_rows; ++r, tile += run.stride) {
      if (r < 0 || r >= run.h || n == 0) {
        std::fill_n(tile, run.stride, 0.0f);
        continue;
      }
      std::fill_n(tile, before, 0.0f);
      map(
          static_cast<std::size_t>(n), tile + before, [](VF v) { return v; },
          x + (c * run.h + r) * run.w + begin);
      std::fill_n(tile + before + n, run.stride - before - n, 0.0f);
    }
  }
}

/// kStrip pixels of one row, all channels. `tile` points at the first pixel that the first one needs.
template <std::int64_t co>
HWY_INLINE void convolve_strip(const FewChannelsRun& run, const float* tile, std::int64_t plane,
                               VF (&sums)[co][kStripVectors]) {
  const F d;
#pragma GCC unroll 4
  for (std::int64_t o = 0; o < co; ++o)
#pragma GCC unroll 4
    for (VF& sum : sums[o]) sum = hn::Set(d, run.bias[o]);
  const float* w = run.weights;
  for (std::int64_t c = 0; c < run.ci; ++c, tile += plane) {
    for (std::int64_t ky = 0; ky < run.kh; ++ky) {
      const float* const row = tile + ky * run.stride;
      for (std::int64_t kx = 0; kx < run.kw; ++kx, w += co) {
        VF pixels[kStripVectors];
#pragma GCC unroll 4
        for (std::int64_t v = 0; v < kStripVectors; ++v)
          pixels[v] = hn::LoadU(d, row + kx + v * static_cast<std::int64_t>(kLanes));
#pragma GCC unroll 4
        for (std::int64_t o = 0; o < co; ++o) {
          const VF weight = hn::Set(d, w[o]);
#pragma GCC unroll 4
          for (std::int64_t v = 0; v < kStripVectors; ++v)
            sums[o][v] = hn::MulAdd(pixels[v], weight, sums[o][v]);
        }
      }
    }
  }
}

template <std::int64_t co, class T>
HWY_INLINE void convolve_tile(const FewChannelsRun& run, std::int64_t row, std::int64_t column,
                              std::int64_t n_rows, std::int64_t n_columns, const float* tile, T* y) {
  const F d;
  const std::int64_t plane = (n_rows + run.kh - 1) * run.stride;
  for (std::int64_t r = 0; r < n_rows; ++r) {
    for (std::int64_t at = 0; at < n_columns; at += kStrip) {
      VF sums[co][kStripVectors];
      convolve_strip<co>(run, tile + r * run.stride + at, plane, sums);
      for (std::int64_t o = 0; o < co; ++o) {
        T* const out = y + (o * run.ho + row + r) * run.wo + column + at;
        for (std::int64_t v = 0; v < kStripVectors; ++v) {
          const std::int64_t first = v * static_cast<std::int64_t>(kLanes), left = n_columns - at - first;
          if (left >= static_cast<std::int64_t>(kLanes)) {
            store(d, sums[o][v], out + first);
          } else if (left > 0) {
            store_n(d, sums[o][v], out + first, static_cast<std::size_t>(left));
          }
        }
      }
    }
  }
}

static void few_channels_tile(const FewChannelsRun& run, std::int64_t image, std::int64_t row,
                              std::int64_t column, float* tile) {
  with_storage(run.dtype, [&]<class T>(T) {
    const T* const x = static_cast<const T*>(run.x) + image * run.ci * run.h * run.w;
    T* const y = static_cast<T*>(run.y) + image * run.co * run.ho * run.wo;
    const std::int64_t n_rows = std::min(run.tile_rows, run.ho - row);
    const std::int64_t n_columns = std::min(run.tile_columns, run.wo - column);
    copy_tile(run, x, row, column, n_rows + run.kh - 1, tile);
    switch (run.co) {
      case 1:
        return convolve_tile<1>(run, row, column, n_rows, n_columns, tile, y);
      case 2:
        return convolve_tile<2>(run, row, column, n_rows, n_columns, tile, y);
      case 3:
        return convolve_tile<3>(run, row, column, n_rows, n_columns, tile, y);
      default:
        return convolve_tile<4>(run, row, column, n_rows, n_columns, tile, y);
    }
  });
}

}  // namespace dif::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dif::cpu {

HWY_EXPORT(few_channels_strip);
HWY_EXPORT(few_channels_tile);

namespace {

class FewChannels final : public runtime::Kernel {
 public:
  explicit FewChannels(const KernelRequest& request) {
    const ir::OpView& op = *request.op;
    const ops::Conv2dSizes sizes = ops::conv2d_sizes(op);
    images_ = sizes.images;
    run_.dtype = op.in(0).dtype;
    run_.ci = sizes.ci;
    run_.h = sizes.h;
    run_.w = sizes.w;
    run_.co = sizes.co;
    run_.ho = sizes.ho;
    run_.wo = sizes.wo;
    run_.kh = sizes.kh;
    run_.kw = sizes.kw;
    run_.top = op.i64s("pads")[0];
    run_.left = op.i64s("pads")[1];
    order_weights(request);
    cut_into_tiles();
  }

  std::uint64_t workspace_bytes() const override {
    return static_cast<std::uint64_t>(slots_ * tile_floats_) * sizeof(float);
  }
  std::uint64_t prepacked_bytes() const override { return (weights_.size() + bias_.size()) * sizeof(float); }
  bool reads_constant(std::size_t operand) const override { return operand == 0; }

  Status run(const runtime::KernelArgs& args) override {
    FewChannelsRun run = run_;
    run.weights = weights_.data();
    run.bias = bias_.data();
    run.x = args.in[0].data<void>();
    run.y = args.out[0].data<void>();
    auto* const tiles = reinterpret_cast<float*>(args.workspace.pointer());
    const auto tile_of = HWY_DYNAMIC_DISPATCH(few_channels_tile);
    const std::int64_t across = ceil_div(run.wo, run.tile_columns), down = ceil_div(run.ho, run.tile_rows);
    for_blocks_balanced(images_ * down * across, slots_, [&](std::int64_t task, int slot) {
      tile_of(run, task / (down * across), task / across % down * run.tile_rows,
              task % across * run.tile_columns, tiles + slot * tile_floats_);
    });
    return ok();
  }

 private:
  /// From [co, ci, kh, kw] to [ci, kh, kw, co], in f32.
  void order_weights(const KernelRequest& request) {
    const std::int64_t taps = run_.ci * run_.kh * run_.kw;
    std::vector<float> plain(static_cast<std::size_t>(taps * run_.co));
    convert(run_.dtype, request.constants[1].pointer(), DType::kF32, plain.data(), taps * run_.co);
    for (std::int64_t tap = 0; tap < taps; ++tap)
      for (std::int64_t o = 0; o < run_.co; ++o)
        weights_.push_back(plain[static_cast<std::size_t>(o * taps + tap)]);
    bias_.resize(static_cast<std::size_t>(run_.co));
    if (request.op->has(2))
      convert(run_.dtype, request.constants[2].pointer(), DType::kF32, bias_.data(), run_.co);
  }

  /// Tiles whose input fits into the second cache of a core.
  void cut_into_tiles() {
    constexpr std::int64_t kTileFloats = 128 << 10, kMostColumns = 256, kMostRows = 16, kFewRows = 8;
    const std::int64_t strip = HWY_DYNAMIC_DISPATCH(few_channels_strip)();
    run_.tile_columns = std::min(kMostColumns, ceil_div(run_.wo, strip) * strip);
    for (;; run_.tile_columns -= strip) {
      run_.stride =
          static_cast<std::int64_t>(align_up(static_cast<std::size_t>(run_.tile_columns + run_.kw - 1), 16));
      run_.tile_rows = kTileFloats / (run_.ci * run_.stride) - (run_.kh - 1);
      // Each row is copied for every tile that reads it: tall tiles copy less.
      if (run_.tile_rows >= std::min(kFewRows, run_.ho) || run_.tile_columns <= strip) break;
    }
    run_.tile_rows = std::clamp<std::int64_t>(run_.tile_rows, 1, std::min(kMostRows, run_.ho));
    tile_floats_ = run_.ci * (run_.tile_rows + run_.kh - 1) * run_.stride;
    slots_ = thread_count();
  }

  FewChannelsRun run_;
  std::int64_t images_ = 0, tile_floats_ = 0;
  int slots_ = 1;
  std::vector<float> weights_, bias_;
};

}  // namespace

MakeResult make_few_channel_conv2d(const KernelRequest& request) {
  const ir::OpView& op = *request.op;
  if (op.out().numel() == 0 || op.in(1).numel() == 0) return runtime::declined("nothing to convolve");
  if (op.flag("channels_last")) return runtime::declined("channels last");
  if (op.out().dim(1) > kMostChannels)
    return runtime::declined("{} channels of the result > {}", op.out().dim(1), kMostChannels);
  if (op.i64("groups") != 1) return runtime::declined("groups of channels");
  if (op.i64s("strides")[0] != 1 || op.i64s("strides")[1] != 1) return runtime::declined("a stride over 1");
  if (!request.constants[1] || (op.has(2) && !request.constants[2]))
    return runtime::declined("weights that are not constant");
  return std::make_unique<FewChannels>(request);
}

}  // namespace dif::cpu
#endif
