#pragma once

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>

#include "runtime/device.h"
#include "runtime/finite.h"

namespace dif::runtime::test {

/// A device with two lanes whose work is done only when somebody waits for it, and then in the worst order:
/// one lane goes as far as it can before the other moves. What nobody ordered goes wrong.
class LaneDevice final : public Device {
 public:
  explicit LaneDevice(Lane eager = Lane::kRun) : eager_(eager) {}
  ~LaneDevice() override {
    EXPECT_TRUE(memory_.empty()) << "device memory";
    EXPECT_TRUE(pinned_.empty()) << "pinned memory";
  }

  bool addresses_host_memory() const override { return false; }
  bool has_copy_lane() const override { return true; }
  std::uint64_t cap_bytes() const override { return cap; }
  std::uint64_t held_bytes() const override { return held_; }

  Result<BufferView> allocate(std::uint64_t bytes) override {
    const std::lock_guard lock(mutex_);
    if (cap != 0 && held_ + bytes > cap)
      return fail(ErrorCode::kOutOfMemory, "{} bytes more than the cap of {}", held_ + bytes - cap, cap);
    held_ += bytes;
    ++counters_.allocations;
    most_held = std::max(most_held, held_);
    auto* const memory = static_cast<std::byte*>(std::aligned_alloc(256, (bytes + 511) / 256 * 256));
    std::memset(memory, 0xa5, bytes);
    memory_[memory] = bytes;
    return BufferView{memory, 0};
  }
  void release(BufferView buffer) override {
    drain(nullptr);
    const std::lock_guard lock(mutex_);
    held_ -= memory_.at(buffer.pointer());
    memory_.erase(buffer.pointer());
    std::free(buffer.base);
  }
  Status upload(BufferView to, const void* from, std::uint64_t bytes) override {
    const auto* first = static_cast<const std::byte*>(from);
    submit(Lane::kRun, [to, copy = std::vector<std::byte>(first, first + bytes)] {
      std::memcpy(to.pointer(), copy.data(), copy.size());
    });
    return ok();
  }
  Status download(void* to, BufferView from, std::uint64_t bytes) override {
    DIF_TRY(synchronize());
    std::memcpy(to, from.pointer(), bytes);
    return ok();
  }
  Status copy(BufferView to, BufferView from, std::uint64_t bytes) override {
    submit(Lane::kRun, [=] { std::memmove(to.pointer(), from.pointer(), bytes); });
    return ok();
  }
  Status synchronize() override {
    Place place = record(Lane::kRun);
    drain(&place);
    return ok();
  }

  Result<void*> allocate_pinned(std::uint64_t bytes) override {
    const std::lock_guard lock(mutex_);
    if (bytes > pinned_limit) return fail(ErrorCode::kOutOfMemory, "{} bytes cannot be pinned", bytes);
    void* const memory = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    pinned_.insert(memory);
    return memory;
  }
  void release_pinned(void* memory) override {
    drain(nullptr);
    const std::lock_guard lock(mutex_);
    pinned_.erase(memory);
    std::free(memory);
  }
  Status upload_later(Lane lane, BufferView to, const void* pinned, std::uint64_t bytes) override {
    DIF_TRY(count_copy());
    uploaded_bytes += bytes;
    submit(lane, [=] { std::memcpy(to.pointer(), pinned, bytes); });
    return ok();
  }
  Status download_later(Lane lane, void* pinned, BufferView from, std::uint64_t bytes) override {
    DIF_TRY(count_copy());
    submit(lane, [=] { std::memcpy(pinned, from.pointer(), bytes); });
    return ok();
  }
  Result<std::unique_ptr<Marker>> make_marker() override { return std::make_unique<TestMarker>(*this); }
  DeviceCounters counters() const override { return counters_; }
  Result<std::unique_ptr<FiniteProbe>> finite_probe() override { return std::make_unique<TestProbe>(*this); }

  Result<bool> begin_recording() override {
    if (!records) return false;
    recording_ = true;
    return true;
  }
  Result<std::unique_ptr<Recording>> end_recording() override {
    recording_ = false;
    ++recordings;
    return std::make_unique<TestRecording>(*this, std::exchange(noted_, {}));
  }

  /// What a kernel of this device does.
  void submit(Lane lane, std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    if (lane == Lane::kRun && recording_)
      noted_.push_back(std::move(work));
    else
      lanes_[index(lane)].push_back({std::move(work), {}});
  }

  std::uint64_t cap = 0, most_held = 0, pinned_limit = UINT64_MAX;
  std::atomic<std::uint64_t> uploaded_bytes = 0;  ///< of both threads
  std::atomic<std::int64_t> copies_until_failure = -1;
  bool records = false;
  int recordings = 0, replays = 0, looks = 0;

 private:
  /// That many pieces of work of a lane.
  struct Place {
    Lane lane = Lane::kRun;
    std::uint64_t count = 0;
  };
  struct Work {
    std::function<void()> run;  ///< empty: waits for `until`
    Place until;
  };
  struct TestMarker final : Marker {
    explicit TestMarker(LaneDevice& owner) : device(owner) {}
    Status record(Lane lane) override {
      place = device.record(lane);
      return ok();
    }
    Status wait(Lane lane) override {
      const std::lock_guard lock(device.mutex_);
      EXPECT_FALSE(device.recording_ && lane == Lane::kRun) << "recordings wait for nothing";
      device.lanes_[index(lane)].push_back({nullptr, place});
      return ok();
    }
    Status synchronize() override {
      device.drain(&place);
      return ok();
    }
    LaneDevice& device;
    Place place;
  };
  struct TestProbe final : FiniteProbe {
    explicit TestProbe(LaneDevice& owner) : device(owner) {}
    Status submit(const TensorView& tensor) override {
      ++device.looks;
      device.submit(Lane::kRun, [this, at = tensor.buffer, type = *tensor.type] {
        finite = all_finite(type.dtype, std::span(at.pointer(), type.bytes()));
      });
      place = device.record(Lane::kRun);
      return ok();
    }
    Result<bool> wait() override {
      device.drain(&place);
      return finite;
    }
    LaneDevice& device;
    Place place;
    bool finite = true;
  };
  struct TestRecording final : Recording {
    TestRecording(LaneDevice& owner, std::vector<std::function<void()>> work)
        : device(owner), noted(std::move(work)) {}
    Status replay() override {
      ++device.replays;
      for (const auto& work : noted) device.submit(Lane::kRun, work);
      return ok();
    }
    LaneDevice& device;
    std::vector<std::function<void()>> noted;
  };

  Status count_copy() {
    if (copies_until_failure-- == 0) return fail(ErrorCode::kUnavailable, "the device is gone");
    return ok();
  }
  static std::size_t index(Lane lane) { return static_cast<std::size_t>(lane); }
  Place record(Lane lane) {
    const std::lock_guard lock(mutex_);
    return {lane, done_[index(lane)] + lanes_[index(lane)].size()};
  }
  bool step(Lane lane) {
    std::deque<Work>& work = lanes_[index(lane)];
    if (work.empty()) return false;
    const Work& next = work.front();
    if (!next.run && done_[index(next.until.lane)] < next.until.count) return false;
    if (next.run) next.run();
    work.pop_front();
    ++done_[index(lane)];
    return true;
  }
  /// Works until the place is reached; without one, until nothing is left.
  void drain(const Place* place) {
    const std::lock_guard lock(mutex_);
    const Lane other = eager_ == Lane::kRun ? Lane::kCopy : Lane::kRun;
    while (place == nullptr || done_[index(place->lane)] < place->count)
      if (!step(eager_) && !step(other)) {
        EXPECT_TRUE(lanes_[0].empty() && lanes_[1].empty()) << "the lanes wait for each other";
        return;
      }
  }

  Lane eager_;
  std::mutex mutex_;
  std::deque<Work> lanes_[2];
  std::uint64_t done_[2] = {0, 0};
  std::uint64_t held_ = 0;
  DeviceCounters counters_;
  bool recording_ = false;
  std::vector<std::function<void()>> noted_;
  std::map<std::byte*, std::uint64_t> memory_;
  std::set<void*> pinned_;
};

}  // namespace dif::runtime::test
