#include "runtime/weight_stream.h"

#include <algorithm>
#include <chrono>
#include <system_error>

#include "base/check.h"

namespace dif::runtime {

Result<std::unique_ptr<WeightStream>> WeightStream::create(Device& device, std::vector<StreamStage> stages,
                                                           const WeightOptions& options) {
  DIF_CHECK(!stages.empty());
  std::unique_ptr<WeightStream> stream(new WeightStream(device, std::move(stages), options));
  DIF_TRY(stream->open(options));
  return stream;
}

Status WeightStream::open(const WeightOptions& options) {
  UploaderOptions chosen;
  chosen.threads = options.threads;
  chosen.n_buffers = options.n_buffers;
  chosen.buffer_bytes = WeightOptions::kStagingBufferBytes;
  chosen.release_pages = options.release_pages;
  std::uint64_t read_bytes = 0;  // what is pinned already needs no buffers
  for (const StreamStage& stage : stages_)
    for (const Transfer& transfer : stage.transfers) read_bytes += transfer.from.pinned ? 0 : transfer.bytes;
  const std::uint64_t useful = read_bytes / chosen.buffer_bytes + 2;
  chosen.n_buffers = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(options.n_buffers, 2, useful));
  if (read_bytes == 0) chosen.buffer_bytes = io::RangeReader::kBlock;
  DIF_ASSIGN(uploader_, Uploader::create(device_, chosen));
  for (std::size_t i = 0; i < stages_.size(); ++i)
    for (auto* marks : {&fetched_marks_, &released_marks_}) {
      DIF_ASSIGN(std::unique_ptr<Marker> mark, device_.make_marker());
      marks->push_back(std::move(mark));
    }
  return start();
}

WeightStream::~WeightStream() {
  stop();
}

Status WeightStream::start() {
  // The ring's memory may have belonged to something that the run lane still works on.
  DIF_TRY(released_marks_.back()->record(Lane::kRun));
  DIF_TRY(released_marks_.back()->wait(Lane::kCopy));
  try {
    thread_ = std::thread([this] {
      Status status = fetch_all();
      const std::lock_guard lock(mutex_);
      if (!status) failure_ = std::move(status.error());
      changed_.notify_all();
    });
  } catch (const std::system_error&) {
    return fail(ErrorCode::kUnavailable, "the system has no more threads; end what else runs");
  }
  return ok();
}

void WeightStream::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    changed_.notify_all();
  }
  uploader_->stop();
  if (thread_.joinable()) thread_.join();
}

/// Waits until what lies in the place of stage `number` was released, and in serial streaming until the stage
/// is asked for. Then the copy lane may go on once the run lane has passed that release.
Status WeightStream::wait_for_place(std::uint64_t number) {
  const std::uint64_t back = stages_[number % stages_.size()].overwrites;
  std::unique_lock lock(mutex_);
  const auto free = [&] { return released_ + back > number && (!serial_ || asked_ > number); };
  if (!free() && !stopped_) {
    lock.unlock();
    DIF_TRY(uploader_->settle());  // the readers can use the time
    lock.lock();
  }
  changed_.wait(lock, [&] { return stopped_ || free(); });
  if (stopped_) return fail(ErrorCode::kCancelled, "stopped on request");
  lock.unlock();
  return number < back ? ok() : released_marks_[(number - back) % stages_.size()]->wait(Lane::kCopy);
}

/// What the thread does until it is stopped.
Status WeightStream::fetch_all() {
  DIF_TRY(device_.enter_copy_thread());
  std::vector<Transfer> transfers;
  for (const StreamStage& stage : stages_)
    transfers.insert(transfers.end(), stage.transfers.begin(), stage.transfers.end());
  uploader_->begin(std::move(transfers), true);
  for (std::uint64_t number = 0;; ++number) {
    const std::size_t index = number % stages_.size();
    DIF_TRY(wait_for_place(number));
    for (std::size_t i = 0; i < stages_[index].transfers.size(); ++i) DIF_TRY(uploader_->next());
    DIF_TRY(fetched_marks_[index]->record(Lane::kCopy));
    const std::lock_guard lock(mutex_);
    fetched_ = number + 1;
    changed_.notify_all();
  }
}

Status WeightStream::acquire(const std::function<bool()>& cancelled) {
  constexpr std::chrono::milliseconds kPatience(20);
  std::unique_lock lock(mutex_);
  asked_ = acquired_ + 1;
  changed_.notify_all();
  const auto there = [&] { return failure_ || fetched_ > acquired_; };
  while (!changed_.wait_for(lock, kPatience, there))
    if (cancelled && cancelled()) return fail(ErrorCode::kCancelled, "stopped on request");
  if (failure_) return tl::unexpected<Error>(*failure_);
  const std::size_t index = acquired_++ % stages_.size();
  lock.unlock();
  if (serial_) DIF_TRY(fetched_marks_[index]->synchronize());
  return fetched_marks_[index]->wait(Lane::kRun);
}

Status WeightStream::release() {
  DIF_TRY(released_marks_[released_ % stages_.size()]->record(Lane::kRun));
  const std::lock_guard lock(mutex_);
  ++released_;
  changed_.notify_all();
  return ok();
}

}  // namespace dif::runtime
