#include "io/range_reader.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"

namespace dif::io {

namespace {

std::filesystem::path self_link(int fd) {
  return std::filesystem::path("/proc/self/fd") / std::to_string(fd);
}

std::string name_of(int fd) {
  std::error_code error;
  const std::filesystem::path name = std::filesystem::read_symlink(self_link(fd), error);
  return error ? fmt::format("file descriptor {}", fd) : name.string();
}

/// As many bytes as the file has, up to `bytes`; negative: errno says why.
std::int64_t read_at(int fd, std::byte* to, std::uint64_t bytes, std::uint64_t offset) {
  std::uint64_t done = 0;
  while (done < bytes) {
    const ssize_t got = ::pread(fd, to + done, bytes - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -1;
    if (got == 0) break;
    done += static_cast<std::uint64_t>(got);
  }
  return static_cast<std::int64_t>(done);
}

/// Whether less than 90 % of the pages are in the cache. What cannot be found out is warm.
bool is_cold(const FileRange& range) {
  if (range.mapped == nullptr || range.bytes == 0) return false;
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(range.mapped) & ~(page - 1);
  const auto end = reinterpret_cast<std::uintptr_t>(range.mapped) + range.bytes;
  std::vector<unsigned char> pages((end - begin + page - 1) / page);
  if (::mincore(reinterpret_cast<void*>(begin), end - begin, pages.data()) != 0) return false;
  const auto resident = std::ranges::count_if(pages, [](unsigned char state) { return (state & 1) != 0; });
  return static_cast<std::size_t>(resident) * 10 < pages.size() * 9;
}

}  // namespace

RangeReader::~RangeReader() {
  close();
}

void RangeReader::close() {
  for (const auto& [fd, direct] : direct_files_)
    if (direct >= 0) ::close(direct);
  direct_files_.clear();
}

int RangeReader::direct_file(int fd) {
  const std::lock_guard lock(mutex_);
  const auto [entry, fresh] = direct_files_.try_emplace(fd, -1);
  if (fresh) entry->second = ::open(self_link(fd).c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT);
  return entry->second;
}

Result<const std::byte*> RangeReader::read(const FileRange& range, std::byte* to) {
  if (is_cold(range)) {
    const std::uint64_t begin = range.offset & ~(kBlock - 1);
    const std::uint64_t before = range.offset - begin;
    const std::uint64_t whole = (before + range.bytes + kBlock - 1) & ~(kBlock - 1);
    const int direct = direct_file(range.fd);
    // Short at the end of the file, whose last block is not whole.
    if (direct >= 0 && read_at(direct, to, whole, begin) >= static_cast<std::int64_t>(before + range.bytes)) {
      direct_bytes_ += range.bytes;
      return to + before;
    }
    refused_bytes_ += range.bytes;
  }
  const std::int64_t got = read_at(range.fd, to, range.bytes, range.offset);
  if (got < 0)
    return fail(ErrorCode::kIo, "{} cannot be read at {}: {}", name_of(range.fd), range.offset,
                std::strerror(errno));
  if (static_cast<std::uint64_t>(got) < range.bytes)
    return fail(
        ErrorCode::kIo,
        "{} shrank while in use: {} bytes were expected at {}, {} are there; restore the file and run "
        "again",
        name_of(range.fd), range.bytes, range.offset, got);
  return to;
}

void drop_from_cache(const FileRange& range) {
  ::posix_fadvise(range.fd, static_cast<off_t>(range.offset), static_cast<off_t>(range.bytes),
                  POSIX_FADV_DONTNEED);
}

}  // namespace dif::io
