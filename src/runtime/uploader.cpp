#include "runtime/uploader.h"

#include <algorithm>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/parallel.h"

namespace dif::runtime {

namespace {

constexpr unsigned kMostReaders = 12;

unsigned reader_count(unsigned asked) {
  return asked != 0 ? asked : std::clamp(std::thread::hardware_concurrency(), 1U, kMostReaders);
}

/// Starts up to `wanted` threads; fewer where the system has no more.
template <class Work>
std::vector<std::thread> start_threads(std::size_t wanted, Work work) {
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < wanted; ++i) {
    try {
      threads.emplace_back(work);
    } catch (const std::system_error&) {
      break;
    }
  }
  return threads;
}

}  // namespace

Result<std::unique_ptr<Uploader>> Uploader::create(Device& device, const UploaderOptions& options) {
  std::unique_ptr<Uploader> uploader(new Uploader(device, options));
  DIF_TRY(uploader->open());
  return uploader;
}

Status Uploader::open() {
  DIF_CHECK(options_.n_buffers >= 2);
  const std::uint64_t room = io::RangeReader::room(options_.buffer_bytes);
  DIF_ASSIGN(memory_, PinnedBuffer::create(device_, room * options_.n_buffers));
  DIF_ASSIGN(begun_, device_.make_marker());
  for (std::uint32_t i = 0; i < options_.n_buffers; ++i) {
    Buffer& buffer = buffers_.emplace_back();
    buffer.room = memory_.data() + i * room;
    DIF_ASSIGN(buffer.copied, device_.make_marker());
  }
  return ok();
}

Uploader::~Uploader() {
  end_readers();
  (void)settle();  // the device may still read the buffers
}

void Uploader::stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  changed_.notify_all();
}

void Uploader::end_readers() {
  stop();
  for (std::thread& reader : readers_) reader.join();
  readers_.clear();
  files_.close();
}

void Uploader::begin(std::vector<Transfer> transfers, bool repeats) {
  end_readers();
  transfers_ = std::move(transfers);
  chunks_.clear();
  first_chunk_.clear();
  for (std::size_t i = 0; i < transfers_.size(); ++i) {
    first_chunk_.push_back(chunks_.size());
    if (transfers_[i].from.pinned) continue;
    for (std::uint64_t done = 0; done < transfers_[i].bytes; done += options_.buffer_bytes)
      chunks_.push_back({i, done, std::min(transfers_[i].bytes - done, options_.buffer_bytes)});
  }
  first_chunk_.push_back(chunks_.size());
  repeats_ = repeats;
  next_transfer_ = 0;
  taken_ = submitted_ = freed_ = 0;
  for (Buffer& buffer : buffers_) buffer.filled_with = UINT64_MAX;
  stopped_ = false;
  failure_.reset();
  if (chunks_.size() == 1 && !repeats) return read_chunks();  // a thread takes longer to start
  readers_ = start_threads(std::min<std::size_t>(reader_count(options_.threads), chunks_.size()),
                           [this] { read_chunks(); });
  if (readers_.empty() && !chunks_.empty())
    failure_ = Error{ErrorCode::kUnavailable, "the system has no more threads; end what else runs"};
}

/// What each reader does: the next chunk, once a buffer is free for it.
void Uploader::read_chunks() {
  std::unique_lock lock(mutex_);
  for (;;) {
    const auto ended = [&] { return stopped_ || failure_ || (!repeats_ && taken_ == chunks_.size()); };
    changed_.wait(lock, [&] { return ended() || taken_ < freed_ + buffers_.size(); });
    if (ended()) return;
    const std::uint64_t number = taken_++;
    Buffer& buffer = buffers_[number % buffers_.size()];
    lock.unlock();
    auto found = read(chunks_[number % chunks_.size()], buffer.room);
    lock.lock();
    if (!found) {
      failure_ = std::move(found.error());
    } else {
      buffer.first = *found;
      buffer.filled_with = number;
    }
    changed_.notify_all();
  }
}

Result<const std::byte*> Uploader::read(const Chunk& chunk, std::byte* room) {
  const HostSource from = transfers_[chunk.transfer].from.from(chunk.offset);
  if (from.fd < 0) {
    std::memcpy(room, from.data, chunk.bytes);
    return room;
  }
  const io::FileRange range = {from.fd, from.file_offset, chunk.bytes, from.data};
  auto found = files_.read(range, room);
  if (options_.release_pages) io::drop_from_cache(range);
  return found;
}

/// Waits for the oldest copy in flight. Pre: there is one.
Status Uploader::free_oldest(std::unique_lock<std::mutex>& lock) {
  Marker& copied = *buffers_[freed_ % buffers_.size()].copied;
  lock.unlock();
  const Status status = copied.synchronize();
  lock.lock();
  ++freed_;
  changed_.notify_all();
  return status;
}

Status Uploader::submit_chunk(const Chunk& chunk) {
  std::unique_lock lock(mutex_);
  Buffer& buffer = buffers_[submitted_ % buffers_.size()];
  const auto ready = [&] { return buffer.filled_with == submitted_ || failure_ || stopped_; };
  // Half of the buffers in flight keep the device busy; the readers need the others.
  while (submitted_ - freed_ > buffers_.size() / 2 || (!ready() && freed_ != submitted_))
    DIF_TRY(free_oldest(lock));
  changed_.wait(lock, ready);
  if (failure_) return tl::unexpected<Error>(*failure_);
  if (stopped_) return fail(ErrorCode::kCancelled, "stopped on request");
  lock.unlock();
  const Transfer& transfer = transfers_[chunk.transfer];
  const BufferView to = {transfer.to.base, transfer.to.offset + chunk.offset};
  DIF_TRY(device_.upload_later(Lane::kCopy, to, buffer.first, chunk.bytes));
  DIF_TRY(buffer.copied->record(Lane::kCopy));
  lock.lock();
  ++submitted_;
  return ok();
}

Status Uploader::next() {
  DIF_CHECK(next_transfer_ < transfers_.size());
  const std::size_t index = next_transfer_++;
  if (repeats_) next_transfer_ %= transfers_.size();
  const Transfer& transfer = transfers_[index];
  if (transfer.from.pinned)
    return device_.upload_later(Lane::kCopy, transfer.to, transfer.from.data, transfer.bytes);
  for (std::size_t i = first_chunk_[index]; i < first_chunk_[index + 1]; ++i)
    DIF_TRY(submit_chunk(chunks_[i]));
  return ok();
}

Status Uploader::settle() {
  std::unique_lock lock(mutex_);
  while (freed_ != submitted_) DIF_TRY(free_oldest(lock));
  return ok();
}

Status Uploader::await_run_lane() {
  DIF_TRY(begun_->record(Lane::kRun));
  return begun_->wait(Lane::kCopy);
}

Status Uploader::bring(std::vector<Transfer> transfers) {
  const std::size_t count = transfers.size();
  begin(std::move(transfers));
  Status status;
  for (std::size_t i = 0; i < count && status; ++i) status = next();
  end_readers();
  if (status) status = begun_->record(Lane::kCopy);
  DIF_TRY(settle());
  return status ? begun_->synchronize() : status;
}

Status read_to_host(const std::vector<HostRead>& reads, unsigned threads) {
  constexpr std::uint64_t kPieceBytes = 16 << 20;
  std::vector<HostRead> pieces;
  for (const HostRead& read : reads)
    for (std::uint64_t done = 0; done < read.bytes; done += kPieceBytes)
      pieces.push_back({read.to + done, read.from.from(done), std::min(read.bytes - done, kPieceBytes)});
  io::RangeReader files;
  std::mutex mutex;
  std::optional<Error> failure;
  parallel_for(pieces.size(), reader_count(threads), [&](std::size_t i) {
    const HostRead& piece = pieces[i];
    if (piece.from.fd < 0) {
      std::memcpy(piece.to, piece.from.data, piece.bytes);
      return;
    }
    // Without the mapping: past the cache it would need more room than the bytes.
    if (auto found = files.read({piece.from.fd, piece.from.file_offset, piece.bytes}, piece.to); !found) {
      const std::lock_guard lock(mutex);
      failure = std::move(found.error());
    }
  });
  if (failure) return tl::unexpected<Error>(std::move(*failure));
  return ok();
}

}  // namespace dif::runtime
