#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>

namespace dif::cpu {

/// Owned bytes aligned to a page, for repacked weights. Large ones are asked to lie in huge pages.
class HostBuffer {
 public:
  HostBuffer() = default;
  /// Throws std::bad_alloc.
  explicit HostBuffer(std::size_t bytes);

  std::byte* data() const { return data_.get(); }
  std::size_t bytes() const { return bytes_; }

 private:
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  std::unique_ptr<std::byte, Free> data_;
  std::size_t bytes_ = 0;
};

}  // namespace dif::cpu
