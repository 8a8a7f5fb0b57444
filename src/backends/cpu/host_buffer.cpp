#include "backends/cpu/host_buffer.h"

#include <sys/mman.h>

#include <new>

#include "base/checked_math.h"

namespace dif::cpu {

HostBuffer::HostBuffer(std::size_t bytes) : bytes_(bytes) {
  constexpr std::size_t kPage = 4096, kHugePage = 2 << 20;
  const std::size_t alignment = bytes >= kHugePage ? kHugePage : kPage;
  void* p = std::aligned_alloc(alignment, align_up(bytes == 0 ? 1 : bytes, kPage));
  if (p == nullptr) throw std::bad_alloc();
  if (bytes >= kHugePage) ::madvise(p, bytes, MADV_HUGEPAGE);  // a hint: its failure changes nothing
  data_.reset(static_cast<std::byte*>(p));
}

}  // namespace dif::cpu
