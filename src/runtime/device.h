#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "runtime/execution_options.h"
#include "runtime/kernel.h"

namespace dif::runtime {

/// Work of a device that was noted down once, to be submitted again as a whole.
class Recording {
 public:
  virtual ~Recording() = default;
  virtual Status replay() = 0;
};

/// Looks at results once the device has made them, while the host goes on.
class FiniteProbe {
 public:
  virtual ~FiniteProbe() = default;
  /// After everything that was submitted so far.
  virtual Status submit(const TensorView& tensor) = 0;
  /// Waits for what was submitted, and for all that came before it; whether every element was finite.
  virtual Result<bool> wait() = 0;
};

/// What is submitted to one lane runs in its order; the two run beside each other. Kernels, and copies
/// without a word about it, are of the run lane.
enum class Lane : std::uint8_t { kRun, kCopy };

/// A place in a lane, to wait for.
class Marker {
 public:
  virtual ~Marker() = default;
  /// The place is now behind everything that was submitted to `lane`.
  virtual Status record(Lane lane) = 0;
  /// `lane` goes on once the place that was recorded last is reached; the caller does not wait.
  virtual Status wait(Lane lane) = 0;
  /// The caller waits for that place.
  virtual Status synchronize() = 0;
};

/// What happened since a device was made.
struct DeviceCounters {
  std::uint64_t allocations = 0;       ///< calls of allocate
  std::uint64_t launches = 0;          ///< kernels, library calls excluded
  std::uint64_t graph_launches = 0;    ///< recordings that were submitted
  std::uint64_t synchronizations = 0;  ///< waits until everything submitted is done
  std::uint64_t copies = 0;            ///< submitted, of any direction
  std::uint64_t compilations = 0;      ///< texts that no cache had
};

/// Memory and order of execution of one device. One thread at a time, and beside it one at a time that uses
/// the copy lane alone: upload_later, and markers.
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
  /// Null: this device has done its work when a call comes back, or the host has to look for itself.
  virtual Result<std::unique_ptr<FiniteProbe>> finite_probe() { return nullptr; }
  /// From now until end_recording, kernels and copies are noted down and not run. False: this device does not
  /// record, and nothing has begun.
  virtual Result<bool> begin_recording() { return false; }
  /// What was noted down. Ends the recording in any case. Errors: something was submitted that cannot be
  /// recorded.
  virtual Result<std::unique_ptr<Recording>> end_recording();
  /// Whether copies from pinned host memory run beside kernels. Kernels of such a device never read a
  /// constant while they are made: it may reach the device later.
  virtual bool has_copy_lane() const { return false; }
  /// Called first on a thread that uses the copy lane.
  virtual Status enter_copy_thread() { return ok(); }
  /// Host memory that the device reads by itself, aligned to pages. Errors: OutOfMemory.
  virtual Result<void*> allocate_pinned(std::uint64_t bytes);
  virtual void release_pinned(void* memory) { (void)memory; }
  /// A copy on that lane; `pinned` stays as it is until the lane has passed it.
  virtual Status upload_later(Lane lane, BufferView to, const void* pinned, std::uint64_t bytes);
  /// The other way: `pinned` holds the bytes once the lane has passed it.
  virtual Status download_later(Lane lane, void* pinned, BufferView from, std::uint64_t bytes);
  virtual Result<std::unique_ptr<Marker>> make_marker();
  /// The cap on what the context holds (0 = none), what counts against it now, and what driver and libraries
  /// may come to take without being asked for an allocation.
  virtual std::uint64_t cap_bytes() const { return 0; }
  virtual std::uint64_t held_bytes() const { return 0; }
  virtual std::uint64_t reserve_bytes() const { return 0; }
  /// From now on (until `false`) the device notes how long its kernels take, if it can.
  virtual void measure_kernels(bool on) { (void)on; }
  /// What they took since this was last asked; nothing where the device does not know. Pre: synchronized.
  virtual std::optional<std::uint64_t> measured_nanoseconds() { return std::nullopt; }
  /// Notes the time at which the device gets here, without waiting for it. False: this device does not, and
  /// is asked after each operation (above) or timed by the host.
  virtual Result<bool> mark_time() { return false; }
  /// Nanoseconds from each mark to the next, since this was last asked. Pre: synchronized.
  virtual Result<std::vector<std::uint64_t>> times_between_marks() { return std::vector<std::uint64_t>(); }

  /// What the caller decided about the kernel that is made next, until the next call; null: nothing. A device
  /// whose kernels have no such choices ignores it.
  virtual void set_choices(KernelChoices* choices) { (void)choices; }
  /// Zeros where the device does not count.
  virtual DeviceCounters counters() const { return {}; }

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

/// Owned pinned host memory; empty after a move.
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  static Result<PinnedBuffer> create(Device& device, std::uint64_t bytes);
  PinnedBuffer(PinnedBuffer&& other) noexcept { *this = std::move(other); }
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~PinnedBuffer() {
    if (data_ != nullptr) device_->release_pinned(data_);
  }

  std::byte* data() const { return data_; }
  std::uint64_t bytes() const { return bytes_; }

 private:
  Device* device_ = nullptr;
  std::byte* data_ = nullptr;
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
  std::uint64_t cap_bytes() const override { return cap_bytes_; }
  std::uint64_t held_bytes() const override { return held_bytes_; }

 private:
  std::uint64_t cap_bytes_;
  std::uint64_t held_bytes_ = 0;
};

}  // namespace dif::runtime
