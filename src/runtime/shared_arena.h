#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>

#include "runtime/device.h"
#include "runtime/uploader.h"
#include "runtime/weight_options.h"

namespace dif::runtime {

/// What loading brought to the device, in how many seconds, and how much of it past the page cache.
struct Loading {
  std::uint64_t bytes = 0, direct_bytes = 0, refused_bytes = 0;
  double seconds = 0;
};

/// Memory that all programs of one context take turns with: one run at a time, so the largest need is enough.
class SharedArena {
 public:
  explicit SharedArena(Device& device) : device_(device) {}
  /// A program uses it from now on.
  void join() { ++n_programs_; }
  /// A program is gone. With the last one goes all that was reserved and expected, where `frees`: what comes
  /// next on a device with a cap needs other sizes.
  void leave(bool frees);
  /// Grows to at least these sizes. Contents do not survive.
  Status reserve(std::uint64_t arena_bytes, std::uint64_t workspace_bytes);
  BufferView arena() const { return arena_.view(); }
  BufferView workspace() const { return workspace_.view(); }
  std::uint64_t arena_bytes() const { return arena_.bytes(); }
  std::uint64_t workspace_bytes() const { return workspace_.bytes(); }
  /// At least that many bytes for inputs and outputs of one run; those of the next run have the same place,
  /// so that what was recorded can be played again.
  Result<BufferView> run_memory(std::uint64_t bytes);
  std::uint64_t run_memory_bytes() const { return run_memory_.bytes(); }
  /// As many in pinned host memory. Pre: the device has a copy lane.
  Result<std::byte*> pinned_run_memory(std::uint64_t bytes);
  /// With pinned buffers for `bytes`, or as many as the options allow, once nobody else loads with it. Pre:
  /// the device has a copy lane.
  Result<Uploader*> uploader(const WeightOptions& options, std::uint64_t bytes);
  /// A program that loads on a thread of its own: the uploader is that one's until it is done.
  void lend_uploader(std::shared_future<Result<Loading>> load) { lent_ = std::move(load); }
  /// What a program that is only planned would take: the next one is planned beside it. Its weights count
  /// while it lives (a negative number takes them back), the largest arena and workspace remain.
  void plan(std::uint64_t arena_bytes, std::uint64_t workspace_bytes, std::int64_t resident_bytes);
  /// The same on a device that may hold `cap_bytes`. Errors: OutOfMemory, where reserve() would meet the cap;
  /// then nothing is planned.
  Status plan_under_cap(std::uint64_t cap_bytes, std::uint64_t arena_bytes, std::uint64_t workspace_bytes,
                        std::uint64_t resident_bytes);
  std::uint64_t planned_arena_bytes() const { return std::max(planned_arena_bytes_, arena_.bytes()); }
  std::uint64_t planned_workspace_bytes() const {
    return std::max(planned_workspace_bytes_, workspace_.bytes());
  }
  std::uint64_t planned_resident_bytes() const { return planned_resident_bytes_; }
  /// What inputs and outputs of a run may take, the largest of all programs.
  std::uint64_t expect_run_bytes(std::uint64_t bytes) { return run_bytes_ = std::max(run_bytes_, bytes); }
  std::uint64_t pinned_run_memory_bytes() const { return pinned_run_memory_.bytes(); }
  std::uint64_t pinned_bytes() const { return uploader_ == nullptr ? 0 : uploader_->pinned_bytes(); }

 private:
  Device& device_;
  std::size_t n_programs_ = 0;
  DeviceBuffer arena_;
  DeviceBuffer workspace_;
  DeviceBuffer run_memory_;
  PinnedBuffer pinned_run_memory_;
  std::unique_ptr<Uploader> uploader_;
  std::shared_future<Result<Loading>> lent_;
  std::uint32_t n_buffers_ = 0;
  std::uint64_t planned_arena_bytes_ = 0, planned_workspace_bytes_ = 0, planned_resident_bytes_ = 0;
  std::uint64_t run_bytes_ = 0;
};

}  // namespace dif::runtime
