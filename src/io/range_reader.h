#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

#include "dif/status.h"

namespace dif::io {

/// A range of an open file.
struct FileRange {
  int fd = -1;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  const std::byte* mapped = nullptr;  ///< where it is mapped; null: not known
};

/// Reads ranges of open files into memory: from the page cache where at least 90 % of a mapped range is in
/// it, else past the cache with O_DIRECT where the file system can. The files stay open while this lives. Any
/// number of threads.
class RangeReader {
 public:
  static constexpr std::uint64_t kBlock = 4096;

  RangeReader() = default;
  RangeReader(const RangeReader&) = delete;
  RangeReader& operator=(const RangeReader&) = delete;
  ~RangeReader();

  /// The memory that read() needs: a range past the cache is read in whole blocks around it.
  static constexpr std::uint64_t room(std::uint64_t bytes) {
    return (bytes + 3 * kBlock - 1) & ~(kBlock - 1);
  }

  /// Reads to somewhere in `to`, which is aligned to kBlock and has room(range.bytes); the result is where
  /// the first byte is. Errors: Io (the file ends before the range does, or cannot be read), naming the file.
  Result<const std::byte*> read(const FileRange& range, std::byte* to);

  /// Closes what it opened; the counts stay. Pre: no read() is under way.
  void close();

  std::uint64_t direct_bytes() const { return direct_bytes_; }  ///< that came past the cache
  /// Cold ones that had to come through the cache, because the file system reads nothing past it.
  std::uint64_t refused_bytes() const { return refused_bytes_; }

 private:
  int direct_file(int fd);

  std::mutex mutex_;
  std::map<int, int> direct_files_;  ///< by descriptor; -1 where the file system has none
  std::atomic<std::uint64_t> direct_bytes_{0}, refused_bytes_{0};
};

/// Takes a range out of the page cache, whole pages alone. A hint; never fails.
void drop_from_cache(const FileRange& range);

}  // namespace dif::io
