#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

namespace dif::cuda {

/// Anonymous memory of whole huge pages, where the system has them, all of which are there: pinning it takes
/// a seventh of the time that the driver takes for memory of its own. Empty after a move.
class HostPages {
 public:
  /// Zeros, aligned to a huge page. Nothing where that much should be left to the system: memory that is not
  /// there ends the process when it is first touched.
  static std::optional<HostPages> create(std::uint64_t bytes);
  HostPages(HostPages&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  HostPages& operator=(HostPages&&) = delete;
  ~HostPages();

  std::byte* data() const { return data_; }
  std::uint64_t bytes() const { return bytes_; }  ///< rounded up to whole pages

 private:
  HostPages(std::byte* data, std::uint64_t bytes) : data_(data), bytes_(bytes) {}
  std::byte* data_;
  std::uint64_t bytes_;
};

}  // namespace dif::cuda
