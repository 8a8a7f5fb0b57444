#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "runtime/kernel.h"

namespace dif::runtime {

/// Work of a device that was noted down once, to be submitted again as a whole.
class Recording {
 public:
  virtual ~Recording() = default;
  virtual Status replay() = 0;
};

/// Memory and order of execution of one device. One thread at a time.
class Device {
 public:
  virtual ~Device() = default;

  /// Whether kernels read host memory: then constants and inputs are used where they are, without a copy.
  virtual bool addresses_host_memory() const = 0;
  /// Errors: OutOfMemory (names the bytes and the cap or what was free).
  virtual Result<BufferView> allocate(std::uint64_t bytes) = 0;
  virtual void release(BufferView buffer) = 0;
  virtual Status upload(BufferView to, const void* from, std::uint64_t bytes) = 0;
  virtual Status download(void* to, BufferView from, std::uint64_t bytes) = 0;
  virtual Status copy(BufferView to, BufferView from, std::uint64_t bytes) = 0;
  /// Called on the thread of a run before its first kernel.
  virtual Status begin_run() { return ok(); }
  /// Waits until everything submitted is done.
  virtual Status synchronize() { return ok(); }
  /// From now until end_recording, kernels and copies are noted down and not run. False: this device does not
  /// record, and nothing has begun.
  virtual Result<bool> begin_recording() { return false; }
  /// What was noted down. Ends the recording in any case. Errors: something was submitted that cannot be
  /// recorded.
  virtual Result<std::unique_ptr<Recording>> end_recording();
  /// From now on (until `false`) the device notes how long its kernels take, if it can.
  virtual void measure_kernels(bool on) { (void)on; }
  /// What they took since this was last asked; nothing where the device does not know. Pre: synchronized.
  virtual std::optional<std::uint64_t> measured_nanoseconds() { return std::nullopt; }

  /// The most bytes that DeviceBuffers of this device have had at one time, as they were asked for.
  std::uint64_t peak_bytes() const { return peak_bytes_; }

 private:
  friend class DeviceBuffer;
  std::uint64_t buffer_bytes_ = 0;
  std::uint64_t peak_bytes_ = 0;
};

/// Owned bytes of a device; empty after a move.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  static Result<DeviceBuffer> create(Device& device, std::uint64_t bytes);
  DeviceBuffer(DeviceBuffer&& other) noexcept { *this = std::move(other); }
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(view_, other.view_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~DeviceBuffer() {
    if (!view_) return;
    device_->buffer_bytes_ -= bytes_;
    device_->release(view_);
  }

  BufferView view() const { return view_; }
  std::uint64_t bytes() const { return bytes_; }

 private:
  Device* device_ = nullptr;
  BufferView view_;
  std::uint64_t bytes_ = 0;
};

/// Host memory, 64-byte aligned, under a cap.
class HostDevice : public Device {
 public:
  /// cap_bytes 0 = no cap.
  explicit HostDevice(std::uint64_t cap_bytes) : cap_bytes_(cap_bytes) {}

  bool addresses_host_memory() const override { return true; }
  Result<BufferView> allocate(std::uint64_t bytes) override;
  void release(BufferView buffer) override;
  Status upload(BufferView to, const void* from, std::uint64_t bytes) override;
  Status download(void* to, BufferView from, std::uint64_t bytes) override;
  Status copy(BufferView to, BufferView from, std::uint64_t bytes) override;

 private:
  std::uint64_t cap_bytes_;
  std::uint64_t held_bytes_ = 0;
};

}  // namespace dif::runtime
