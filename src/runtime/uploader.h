#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "io/range_reader.h"
#include "runtime/device.h"

namespace dif::runtime {

/// Bytes on the host.
struct HostSource {
  const std::byte* data = nullptr;
  int fd = -1;  ///< of a file that holds the same bytes, or -1
  std::uint64_t file_offset = 0;
  bool pinned = false;  ///< the device reads `data` by itself

  HostSource from(std::uint64_t offset) const {
    return {data == nullptr ? nullptr : data + offset, fd, file_offset + offset, pinned};
  }
};

struct Transfer {
  BufferView to;
  HostSource from;
  std::uint64_t bytes = 0;
};

struct UploaderOptions {
  unsigned threads = 0;          ///< that read; 0 = the CPUs that the process may use, at most 12
  std::uint32_t n_buffers = 32;  ///< pinned, at least 2
  std::uint64_t buffer_bytes = 4 << 20;
  bool release_pages = false;  ///< what was read leaves the page cache
};

/// Brings bytes from files and host memory to a device with a copy lane. Threads read pieces of them into
/// pinned buffers, in the order of the transfers; next() submits the copies. begin, next and settle belong to
/// one thread, that of the device or of its copy lane.
class Uploader {
 public:
  static Result<std::unique_ptr<Uploader>> create(Device& device, const UploaderOptions& options);
  ~Uploader();

  /// Reading begins. `repeats`: after the last transfer the first one follows again, without end. Pre: no
  /// earlier transfers, or all of them were submitted, or stop.
  void begin(std::vector<Transfer> transfers, bool repeats = false);
  /// Submits the next transfer to the copy lane: waits for the readers, and for the device only where every
  /// buffer is in flight. Errors: Io (a file that shrank), Cancelled (after stop), the device's.
  Status next();
  /// Copies wait for what the run lane has now: it may still use the memory that they go to. One thread at a
  /// time with the run lane.
  Status await_run_lane();
  /// All transfers, and waits until the device has them.
  Status bring(std::vector<Transfer> transfers);
  Status run(std::vector<Transfer> transfers) {
    DIF_TRY(await_run_lane());
    return bring(std::move(transfers));
  }
  /// Waits until the device has what was submitted; the buffers are free again.
  Status settle();
  /// Nothing more is read; next() fails. Any thread.
  void stop();

  std::uint64_t pinned_bytes() const { return memory_.bytes(); }
  std::uint64_t direct_bytes() const { return files_.direct_bytes(); }  ///< that came past the page cache
  /// Cold ones that came through it, because their file system reads nothing past it.
  std::uint64_t refused_bytes() const { return files_.refused_bytes(); }

 private:
  struct Chunk {
    std::size_t transfer = 0;
    std::uint64_t offset = 0, bytes = 0;
  };
  struct Buffer {
    std::byte* room = nullptr;
    std::unique_ptr<Marker> copied;
    std::uint64_t filled_with = UINT64_MAX;  ///< number of a chunk
    const std::byte* first = nullptr;
  };

  Uploader(Device& device, const UploaderOptions& options) : device_(device), options_(options) {}
  Status open();
  void end_readers();
  void read_chunks();
  Result<const std::byte*> read(const Chunk& chunk, std::byte* room);
  Status submit_chunk(const Chunk& chunk);
  Status free_oldest(std::unique_lock<std::mutex>& lock);

  Device& device_;
  UploaderOptions options_;
  PinnedBuffer memory_;
  std::unique_ptr<Marker> begun_;
  std::vector<Buffer> buffers_;
  std::vector<Transfer> transfers_;
  std::vector<Chunk> chunks_;
  std::vector<std::size_t> first_chunk_;  ///< per transfer, and the end
  bool repeats_ = false;
  std::size_t next_transfer_ = 0;
  std::vector<std::thread> readers_;
  io::RangeReader files_;

  std::mutex mutex_;
  std::condition_variable changed_;
  // Numbers of chunks, counted on where transfers repeat: freed <= submitted <= taken <= freed + buffers.
  std::uint64_t taken_ = 0, submitted_ = 0, freed_ = 0;
  bool stopped_ = false;
  std::optional<Error> failure_;
};

struct HostRead {
  std::byte* to = nullptr;
  HostSource from;
  std::uint64_t bytes = 0;
};
/// Reads all of them into host memory with several threads (0: as UploaderOptions). Errors: Io.
Status read_to_host(const std::vector<HostRead>& reads, unsigned threads);

}  // namespace dif::runtime
