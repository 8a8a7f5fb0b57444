#include "backends/cpu/channel_layout.h"

#include <algorithm>

#include "backends/cpu/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/channel_layout.cpp"
#include "hwy/foreach_target.h"

#include "backends/cpu/transpose-inl.h"

#ifndef DIF_CPU_CHANNEL_LAYOUT_H_
#define DIF_CPU_CHANNEL_LAYOUT_H_
namespace dif::cpu {

/// Positions begin .. end-1 of the channels of one block.
struct LayoutTask {
  PlanarImage image;
  std::int64_t width, block, begin, end;
};

}  // namespace dif::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace dif::cpu::HWY_NAMESPACE {

/// Positions of one channel that are moved before the next channels: a cache line of f32. Channels often lie
/// a multiple of 4 KiB apart, where lines of more than a few of them do not fit the first cache at the same
/// time.
inline constexpr std::int64_t kStep = 16;

template <class X, class Y>
void copy_planar(const LayoutTask& t, const X* x, Y* y, bool to_blocked) {
  const std::int64_t strided = t.block * t.image.stride + t.begin;
  const std::int64_t dense = t.block * t.image.positions + t.begin;
  map(
      static_cast<std::size_t>(t.end - t.begin), y + (to_blocked ? dense : strided), [](VF v) { return v; },
      x + (to_blocked ? strided : dense));
}

template <class X, class Y>
void block_task(const LayoutTask& t, const X* x, Y* y) {
  if (t.width == 1) return copy_planar(t, x, y, true);
  const std::int64_t first = t.block * t.width, stride = t.image.stride;
  const std::int64_t valid = std::min(t.width, t.image.channels - first);
  const X* const planes = x + first * stride;
  Y* const out = y + t.block * t.image.positions * t.width;
  std::int64_t s = t.begin;
  for (; s + kStep <= t.end; s += kStep) {
    std::int64_t c = 0;
    for (; c + 4 <= valid; c += 4)
      for (std::int64_t i = s; i < s + kStep; i += 4)
        transpose4(planes + c * stride + i, stride, out + i * t.width + c, t.width);
    for (; c < t.width; ++c)
      for (std::int64_t i = s; i < s + kStep; ++i)
        round_to(c < valid ? to_f32(planes[c * stride + i]) : 0.0f, out[i * t.width + c]);
  }
  for (; s < t.end; ++s)
    for (std::int64_t c = 0; c < t.width; ++c)
      round_to(c < valid ? to_f32(planes[c * stride + s]) : 0.0f, out[s * t.width + c]);
}

template <class X, class Y>
void unblock_task(const LayoutTask& t, const X* x, Y* y) {
  if (t.width == 1) return copy_planar(t, x, y, false);
  const std::int64_t first = t.block * t.width, stride = t.image.stride;
  const std::int64_t valid = std::min(t.width, t.image.channels - first);
  const X* const in = x + t.block * t.image.positions * t.width;
  Y* const planes = y + first * stride;
  std::int64_t s = t.begin;
  for (; s + kStep <= t.end; s += kStep) {
    std::int64_t c = 0;
    for (; c + 4 <= valid; c += 4)
      for (std::int64_t i = s; i < s + kStep; i += 4)
        transpose4(in + i * t.width + c, t.width, planes + c * stride + i, stride);
    for (; c < valid; ++c)
      for (std::int64_t i = s; i < s + kStep; ++i)
        round_to(to_f32(in[i * t.width + c]), planes[c * stride + i]);
  }
  for (; s < t.end; ++s)
    for (std::int64_t c = 0; c < valid; ++c) round_to(to_f32(in[s * t.width + c]), planes[c * stride + s]);
}

static void layout_task(const LayoutTask& task, bool to_blocked, DType from, const void* x, DType to,
                        void* y) {
  with_storage(from, [&]<class X>(X) {
    with_storage(to, [&]<class Y>(Y) {
      if (to_blocked) {
        block_task(task, static_cast<const X*>(x), static_cast<Y*>(y));
      } else {
        unblock_task(task, static_cast<const X*>(x), static_cast<Y*>(y));
      }
    });
  });
}

}  // namespace dif::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dif::cpu {

HWY_EXPORT(layout_task);

static void change_layout(const PlanarImage& image, bool to_blocked, std::int64_t width, DType from,
                          const void* x, DType to, void* y) {
  const auto run = HWY_DYNAMIC_DISPATCH(layout_task);
  const std::int64_t n_blocks = ceil_div(image.channels, width);
  const std::int64_t chunk = std::max<std::int64_t>(16, kBlockElements / width / 16 * 16);
  const std::int64_t chunks = ceil_div(image.positions, chunk);
  // Positions before channels: a convolution gives the first rows to the first thread, which then finds them
  // in its own cache.
  for_blocks(n_blocks * chunks, [&](std::int64_t task) {
    const std::int64_t begin = task / n_blocks * chunk;
    run({image, width, task % n_blocks, begin, std::min(begin + chunk, image.positions)}, to_blocked, from, x,
        to, y);
  });
}

void block_channels(const PlanarImage& image, DType from, const void* x, std::int64_t width, DType to,
                    void* y) {
  change_layout(image, true, width, from, x, to, y);
}

void unblock_channels(const PlanarImage& image, DType from, const void* x, std::int64_t width, DType to,
                      void* y) {
  change_layout(image, false, width, from, x, to, y);
}

}  // namespace dif::cpu
#endif
