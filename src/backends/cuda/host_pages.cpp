#include "backends/cuda/host_pages.h"

#include <sys/mman.h>

#include <algorithm>

#include "base/checked_math.h"
#include "base/parallel.h"
#include "io/system_files.h"

namespace dif::cuda {

namespace {

constexpr std::uint64_t kHugePage = 2 << 20, kPage = 4096;
constexpr std::uint64_t kPieceBytes = 16 * kHugePage;
constexpr std::size_t kThreads = 12;

}  // namespace

std::optional<HostPages> HostPages::create(std::uint64_t bytes) {
  const auto padded = checked_add(bytes, kHugePage);
  if (!padded || *padded > io::read_host_memory().available_bytes / 2) return std::nullopt;
  const std::uint64_t whole = align_up(bytes, kHugePage), mapped = whole + kHugePage;
  void* const start = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (start == MAP_FAILED) return std::nullopt;
  auto* const first = static_cast<std::byte*>(start);
  const std::uint64_t before =
      align_up(reinterpret_cast<std::uintptr_t>(first), kHugePage) - reinterpret_cast<std::uintptr_t>(first);
  if (before != 0) ::munmap(first, before);
  if (before != kHugePage) ::munmap(first + before + whole, kHugePage - before);
  HostPages pages(first + before, whole);
  ::madvise(pages.data_, whole, MADV_HUGEPAGE);  // small pages serve too
  parallel_for((whole + kPieceBytes - 1) / kPieceBytes, kThreads, [&](std::size_t i) {
    const std::uint64_t end = std::min(whole, (i + 1) * kPieceBytes);
    for (std::uint64_t at = i * kPieceBytes; at < end; at += kPage)
      *const_cast<volatile std::byte*>(pages.data_ + at) = std::byte{0};
  });
  return pages;
}

HostPages::~HostPages() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

}  // namespace dif::cuda
