#include "io/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <mutex>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "io/file.h"

namespace dif::io {

/// What the signal handler knows of one mapping. Slots live in blocks that are never freed, so that the
/// handler may walk them at any moment without a lock.
struct MappingSlot {
  std::atomic<bool> taken{false};
  std::atomic<std::uintptr_t> begin{0};  // 0: not to be looked at
  std::atomic<std::uintptr_t> end{0};    // page aligned
  std::atomic<int> fd{-1};
  std::atomic<bool> damaged{false};
};

namespace {

struct SlotBlock {
  std::array<MappingSlot, 128> slots;
  std::atomic<SlotBlock*> next{nullptr};
};

SlotBlock first_block;
struct sigaction previous_action;
std::uintptr_t page_bytes = 4096;  // set before the handler is installed

static_assert(std::atomic<std::uintptr_t>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

MappingSlot* take_slot() {
  for (SlotBlock* block = &first_block;;) {
    for (MappingSlot& slot : block->slots)
      if (!slot.taken.exchange(true)) return &slot;
    SlotBlock* next = block->next.load();
    if (next == nullptr) {
      auto* fresh = new SlotBlock;
      if (block->next.compare_exchange_strong(next, fresh)) {
        next = fresh;
      } else {
        delete fresh;
      }
    }
    block = next;
  }
}

MappingSlot* slot_of(std::uintptr_t address) {
  for (SlotBlock* block = &first_block; block != nullptr; block = block->next.load()) {
    for (MappingSlot& slot : block->slots) {
      const std::uintptr_t begin = slot.begin.load();
      if (begin != 0 && address >= begin && address < slot.end.load()) return &slot;
    }
  }
  return nullptr;
}

/// Puts zeros where the file has nothing to give. Everything past the new end goes at once; a page that a
/// broken disk cannot deliver goes alone.
bool cover_fault(MappingSlot& slot, std::uintptr_t address) {
  const std::uintptr_t begin = slot.begin.load();
  const std::uintptr_t page = address & ~(page_bytes - 1);
  std::uintptr_t bytes = page_bytes;
  struct stat info {};
  if (::fstat(slot.fd.load(), &info) == 0 && page - begin >= static_cast<std::uintptr_t>(info.st_size))
    bytes = slot.end.load() - page;
  slot.damaged.store(true);
  void* const wanted = reinterpret_cast<void*>(page);
  return ::mmap(wanted, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == wanted;
}

void pass_on(int signal, siginfo_t* info, void* context) {
  if ((previous_action.sa_flags & SA_SIGINFO) != 0 && previous_action.sa_sigaction != nullptr) {
    previous_action.sa_sigaction(signal, info, context);
  } else if (previous_action.sa_handler == SIG_DFL || previous_action.sa_handler == SIG_IGN) {
    // Back to the default and return: the access faults again and ends the process as it would have without
    // us.
    struct sigaction standard {};
    standard.sa_handler = SIG_DFL;
    ::sigaction(signal, &standard, nullptr);
    if (info->si_code <= 0) ::raise(signal);  // sent with kill(): nothing faults again
  } else {
    previous_action.sa_handler(signal);
  }
}

void on_bus_error(int signal, siginfo_t* info, void* context) {
  const int saved_errno = errno;
  bool covered = false;
  if (info->si_code == BUS_ADRERR) {
    const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
    if (MappingSlot* slot = slot_of(address)) covered = cover_fault(*slot, address);
  }
  if (!covered) pass_on(signal, info, context);
  errno = saved_errno;
}

void install_handler() {
  static std::once_flag once;
  std::call_once(once, [] {
    page_bytes = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
    struct sigaction ours {};
    ours.sa_sigaction = on_bus_error;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
    ::sigemptyset(&ours.sa_mask);
    // Read first: the handler may run as soon as it is installed.
    ::sigaction(SIGBUS, nullptr, &previous_action);
    ::sigaction(SIGBUS, &ours, nullptr);
  });
}

/// The part of [offset, offset + bytes) that is in the file, from the page that holds its start.
std::span<const std::byte> pages_of(std::span<const std::byte> file, std::uint64_t offset,
                                    std::uint64_t bytes) {
  if (offset >= file.size()) return {};
  bytes = std::min<std::uint64_t>(bytes, file.size() - offset);
  const std::uint64_t start = offset & ~static_cast<std::uint64_t>(page_bytes - 1);
  return file.subspan(start, bytes + (offset - start));
}

void advise(std::span<const std::byte> pages, int advice) {
  if (!pages.empty()) ::madvise(const_cast<std::byte*>(pages.data()), pages.size(), advice);
}

}  // namespace

Result<MappedFile> MappedFile::open(const std::filesystem::path& path) {
  MappedFile file;
  file.path_ = path;
  // Non-blocking, so that a pipe without a writer is refused below instead of waited for.
  do file.fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  while (file.fd_ < 0 && errno == EINTR);
  if (file.fd_ < 0) return tl::unexpected<Error>(open_error(path, errno));

  struct stat info {};
  if (::fstat(file.fd_, &info) != 0) return tl::unexpected<Error>(open_error(path, errno));
  if (S_ISDIR(info.st_mode)) return invalid_input("{} is a folder, expected a file", path.native());
  if (!S_ISREG(info.st_mode))
    return invalid_input("{} is not a regular file and cannot be mapped; give a file on a disk",
                         path.native());
  file.size_ = static_cast<std::uint64_t>(info.st_size);
  if (file.size_ == 0) return file;

  install_handler();
  void* const data = ::mmap(nullptr, file.size_, PROT_READ, MAP_SHARED, file.fd_, 0);
  if (data == MAP_FAILED)
    return fail(errno == ENOMEM ? ErrorCode::kOutOfMemory : ErrorCode::kIo,
                "{}: cannot be mapped into memory ({} bytes): {}", path.native(), file.size_,
                std::strerror(errno));
  file.data_ = static_cast<const std::byte*>(data);
  file.slot_ = take_slot();
  file.slot_->damaged.store(false);
  file.slot_->fd.store(file.fd_);
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  file.slot_->end.store((begin + file.size_ + page_bytes - 1) & ~(page_bytes - 1));
  file.slot_->begin.store(begin);
  return file;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      fd_(std::exchange(other.fd_, -1)),
      slot_(std::exchange(other.slot_, nullptr)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  if (this != &other) {
    close();
    path_ = std::move(other.path_);
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
    fd_ = std::exchange(other.fd_, -1);
    slot_ = std::exchange(other.slot_, nullptr);
  }
  return *this;
}

MappedFile::~MappedFile() {
  close();
}

void MappedFile::close() noexcept {
  if (slot_ != nullptr) slot_->begin.store(0);
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
  if (slot_ != nullptr) slot_->taken.store(false);
  if (fd_ >= 0) ::close(fd_);
  slot_ = nullptr;
  data_ = nullptr;
  fd_ = -1;
}

Status MappedFile::check() const {
  // The size tells of a loss inside the last page, which reads as zeros without a fault.
  struct stat info {};
  const bool shrank =
      fd_ >= 0 && ::fstat(fd_, &info) == 0 && static_cast<std::uint64_t>(info.st_size) < size_;
  if (shrank || (slot_ != nullptr && slot_->damaged.load()))
    return fail(ErrorCode::kIo, "{} shrank or could not be read while in use; restore the file and run again",
                path_.native());
  return ok();
}

void MappedFile::will_need(std::uint64_t offset, std::uint64_t bytes) const {
  advise(pages_of(this->bytes(), offset, bytes), MADV_WILLNEED);
}

void MappedFile::will_read_sequentially() const {
  advise(bytes(), MADV_SEQUENTIAL);
}

void MappedFile::no_longer_needed(std::uint64_t offset, std::uint64_t bytes) const {
  advise(pages_of(this->bytes(), offset, bytes), MADV_DONTNEED);
}

}  // namespace dif::io
