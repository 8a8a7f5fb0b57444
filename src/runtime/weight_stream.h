#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "runtime/uploader.h"
#include "runtime/weight_options.h"

namespace dif::runtime {

/// The weights of one step on their way into the ring.
struct StreamStage {
  std::vector<Transfer> transfers;
  std::uint32_t overwrites = 1;  ///< plan::RingStage::overwrites
};

/// Brings the stages of a run to the device, one after the other and run after run, while kernels run: a
/// thread submits the copies to the copy lane as soon as the stage whose place they take is done. The stages
/// of a run are used in their order: acquire, kernels, release, for each. After a run that stopped between
/// them the next one needs a new stream.
class WeightStream {
 public:
  /// `stages` is not empty. Errors: OutOfMemory (no pinned memory), Unavailable (no thread).
  static Result<std::unique_ptr<WeightStream>> create(Device& device, std::vector<StreamStage> stages,
                                                      const WeightOptions& options);
  ~WeightStream();

  /// The run lane goes on when the next stage is there. Waits until its copy is submitted. Errors: what the
  /// fetching met; Cancelled when `cancelled` says so while it waits.
  Status acquire(const std::function<bool()>& cancelled);
  /// What was submitted to the run lane until now was the last that reads the stage.
  Status release();
  /// Whether a run has begun and not ended.
  bool within_run() const { return acquired_ % stages_.size() != 0 || acquired_ != released_; }

  std::uint64_t pinned_bytes() const { return uploader_->pinned_bytes(); }
  std::uint64_t direct_bytes() const { return uploader_->direct_bytes(); }  ///< as Uploader

 private:
  WeightStream(Device& device, std::vector<StreamStage> stages, const WeightOptions& options)
      : device_(device), stages_(std::move(stages)), serial_(options.serial) {}
  Status open(const WeightOptions& options);
  Status start();
  void stop();
  Status fetch_all();
  Status wait_for_place(std::uint64_t number);

  Device& device_;
  std::vector<StreamStage> stages_;
  bool serial_;
  std::unique_ptr<Uploader> uploader_;
  std::vector<std::unique_ptr<Marker>> fetched_marks_, released_marks_;  ///< per stage
  std::thread thread_;

  std::mutex mutex_;
  std::condition_variable changed_;
  // Counted over all runs: released <= acquired <= asked.
  std::uint64_t asked_ = 0, acquired_ = 0, fetched_ = 0, released_ = 0;
  bool stopped_ = false;
  std::optional<Error> failure_;
};

}  // namespace dif::runtime
