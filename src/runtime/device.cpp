#include "runtime/device.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/checked_math.h"

namespace dif::runtime {

namespace {
// The size of an allocation stands in front of it, so that release can give it back to the cap.
constexpr std::uint64_t kAlignment = 64;
}  // namespace

Result<DeviceBuffer> DeviceBuffer::create(Device& device, std::uint64_t bytes) {
  DeviceBuffer buffer;
  DIF_ASSIGN(buffer.view_, device.allocate(bytes));
  buffer.device_ = &device;
  buffer.bytes_ = bytes;
  device.buffer_bytes_ += bytes;
  device.peak_bytes_ = std::max(device.peak_bytes_, device.buffer_bytes_);
  return buffer;
}

Result<std::unique_ptr<Recording>> Device::end_recording() {
  return fail(ErrorCode::kInternal, "nothing is being recorded");
}

Result<void*> Device::allocate_pinned(std::uint64_t) {
  return fail(ErrorCode::kInternal, "this device has no copy lane");
}

Status Device::upload_later(Lane, BufferView, const void*, std::uint64_t) {
  return fail(ErrorCode::kInternal, "this device has no copy lane");
}

Status Device::download_later(Lane, void*, BufferView, std::uint64_t) {
  return fail(ErrorCode::kInternal, "this device has no copy lane");
}

Result<std::unique_ptr<Marker>> Device::make_marker() {
  return fail(ErrorCode::kInternal, "this device has no copy lane");
}

Result<PinnedBuffer> PinnedBuffer::create(Device& device, std::uint64_t bytes) {
  PinnedBuffer buffer;
  DIF_ASSIGN(void* const memory, device.allocate_pinned(bytes));
  buffer.device_ = &device;
  buffer.data_ = static_cast<std::byte*>(memory);
  buffer.bytes_ = bytes;
  return buffer;
}

Result<BufferView> HostDevice::allocate(std::uint64_t bytes) {
  const auto padded = checked_add(bytes, 2 * kAlignment);
  if (!padded) return fail(ErrorCode::kOutOfMemory, "{} bytes are more than any memory holds", bytes);
  const std::uint64_t total = align_up(*padded, kAlignment);
  if (cap_bytes_ != 0 && (total > cap_bytes_ || held_bytes_ > cap_bytes_ - total))
    return fail(ErrorCode::kOutOfMemory,
                "{} bytes more would exceed the memory cap of {} bytes ({} are held)", bytes, cap_bytes_,
                held_bytes_);
  void* memory = std::aligned_alloc(kAlignment, total);
  if (memory == nullptr)
    return fail(ErrorCode::kOutOfMemory, "the system has no {} bytes of memory left; choose a smaller size",
                bytes);
  std::memcpy(memory, &total, sizeof(total));
  held_bytes_ += total;
  return BufferView{static_cast<std::byte*>(memory) + kAlignment, 0};
}

void HostDevice::release(BufferView buffer) {
  std::byte* memory = static_cast<std::byte*>(buffer.base) - kAlignment;
  std::uint64_t total = 0;
  std::memcpy(&total, memory, sizeof(total));
  held_bytes_ -= total;
  std::free(memory);
}

Status HostDevice::upload(BufferView to, const void* from, std::uint64_t bytes) {
  if (bytes != 0) std::memcpy(to.pointer(), from, bytes);
  return ok();
}

Status HostDevice::download(void* to, BufferView from, std::uint64_t bytes) {
  if (bytes != 0) std::memcpy(to, from.pointer(), bytes);
  return ok();
}

Status HostDevice::copy(BufferView to, BufferView from, std::uint64_t bytes) {
  if (bytes != 0) std::memmove(to.pointer(), from.pointer(), bytes);
  return ok();
}

}  // namespace dif::runtime
