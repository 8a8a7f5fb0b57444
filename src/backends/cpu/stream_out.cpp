#include "backends/cpu/stream_out.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/stream_out.cpp"
#include "hwy/foreach_target.h"

#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace dif::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

static void stream_bytes(const std::byte* x, std::byte* y, std::size_t bytes) {
  const hn::ScalableTag<std::uint8_t> d;
  const std::size_t lanes = hn::MaxLanes(d);
  // Whole lines of the destination alone: a part of one would be read, and written twice.
  constexpr std::size_t kLine = 64;
  const std::size_t head = std::min(bytes, (kLine - reinterpret_cast<std::uintptr_t>(y) % kLine) % kLine);
  std::memcpy(y, x, head);
  std::size_t i = head;
  for (; i + kLine <= bytes; i += kLine)
    for (std::size_t part = 0; part < kLine; part += lanes)
      hn::Stream(hn::LoadU(d, reinterpret_cast<const std::uint8_t*>(x + i + part)), d,
                 reinterpret_cast<std::uint8_t*>(y + i + part));
  std::memcpy(y + i, x + i, bytes - i);
}

}  // namespace dif::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dif::cpu {

HWY_EXPORT(stream_bytes);

void stream_out(const std::byte* x, std::byte* y, std::size_t bytes) {
  HWY_DYNAMIC_DISPATCH(stream_bytes)(x, y, bytes);
}

void finish_stream() {
  hwy::FlushStream();
}

}  // namespace dif::cpu
#endif
