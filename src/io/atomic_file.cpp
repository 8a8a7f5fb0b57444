#include "io/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "io/file.h"

namespace dif::io {

namespace fs = std::filesystem;

/// One temporary that a cancelled process must remove. Nodes are never freed, so that a signal handler may
/// walk the list at any moment without a lock.
struct PendingTemporary {
  enum State : int { kFree, kClaimed, kArmed, kUnlinking };
  std::atomic<int> state{kFree};
  char path[PATH_MAX];
  PendingTemporary* next = nullptr;
};

namespace {

constexpr std::size_t kBufferBytes = 256 << 10;

std::atomic<PendingTemporary*> all_pending{nullptr};
std::atomic<unsigned> temporary_number{0};
std::atomic<int> fault_countdown{0};
std::atomic<int> fault_errno{0};
std::atomic<int> operations{0};

/// True when a test asked that this file operation fails; errno is set.
bool injected_fault() {
  operations.fetch_add(1, std::memory_order_relaxed);
  if (fault_countdown.load(std::memory_order_relaxed) <= 0) return false;
  if (fault_countdown.fetch_sub(1) != 1) return false;
  errno = fault_errno.load();
  return true;
}

PendingTemporary* arm(const std::string& path) {
  if (path.size() >= PATH_MAX) return nullptr;
  PendingTemporary* node = all_pending.load();
  for (; node != nullptr; node = node->next) {
    int expected = PendingTemporary::kFree;
    if (node->state.compare_exchange_strong(expected, PendingTemporary::kClaimed)) break;
  }
  if (node == nullptr) {
    node = new PendingTemporary;
    node->state.store(PendingTemporary::kClaimed);
    node->next = all_pending.load();
    while (!all_pending.compare_exchange_weak(node->next, node)) {
    }
  }
  std::memcpy(node->path, path.c_str(), path.size() + 1);
  node->state.store(PendingTemporary::kArmed);
  return node;
}

void disarm(PendingTemporary* node) noexcept {
  if (node == nullptr) return;
  int expected = PendingTemporary::kArmed;
  while (!node->state.compare_exchange_weak(expected, PendingTemporary::kFree))
    expected = PendingTemporary::kArmed;
}

/// A write past `ulimit -f` must be an error of write(), not the end of the process.
void ignore_file_size_signal() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction current {};
    if (::sigaction(SIGXFSZ, nullptr, &current) == 0 && (current.sa_flags & SA_SIGINFO) == 0 &&
        current.sa_handler == SIG_DFL)
      ::signal(SIGXFSZ, SIG_IGN);
  });
}

fs::path folder_of(const fs::path& file) {
  return file.has_parent_path() ? file.parent_path() : fs::path(".");
}

tl::unexpected<Error> write_error(const fs::path& shown, int error_number) {
  const std::string folder = folder_of(shown).native();
  const auto reason = [&]() -> std::string {
    switch (error_number) {
      case ENOENT:
        if (std::error_code ignored; fs::is_directory(folder, ignored))
          return fmt::format("no file can be made in {}; choose another place", folder);
        return fmt::format("folder {} does not exist; create it first", folder);
      case ENOTDIR:
        return fmt::format("{} is not a folder; choose another place", folder);
      case EISDIR:
        return "it is a folder; give the name of a file";
      case EACCES:
      case EPERM:
        return "no permission; check the owner and mode of the file and its folder";
      case EROFS:
        return "the file system is read-only; choose another place";
      case ENOSPC:
      case EDQUOT:
        return "the disk is full; free some space or choose another place";
      case EFBIG:
        return "the file size limit is reached; raise it (ulimit -f)";
      case ENAMETOOLONG:
        return "the name is too long; choose a shorter one";
      case ELOOP:
        return "too many symbolic links; choose another place";
      case EMFILE:
      case ENFILE:
        return "too many open files; raise the limit (ulimit -n)";
      case EPIPE:
        return "nobody reads the other end";
      default:
        return std::string(std::strerror(error_number)) + "; choose another place";
    }
  };
  return fail(ErrorCode::kIo, "cannot write {}: {}", shown.native(), reason());
}

/// `path` with symbolic links followed, also when the last one points to nothing yet.
Result<fs::path> follow_links(const fs::path& shown) {
  fs::path path = shown;
  for (int links = 0; links < 40; ++links) {
    std::error_code error;
    if (!fs::is_symlink(fs::symlink_status(path, error))) return path;
    const fs::path to = fs::read_symlink(path, error);
    if (error) return write_error(shown, error.value());
    path = to.is_absolute() ? to : folder_of(path) / to;
  }
  return write_error(shown, ELOOP);
}

/// A name that no other AtomicFile has, in this process or another; short enough whatever the target's name.
std::string temporary_name(const fs::path& target) {
  return fmt::format(".{:.100}.{}-{}.tmp", target.filename().native(), ::getpid(),
                     temporary_number.fetch_add(1));
}

int open_file(const char* path, int flags) {
  if (injected_fault()) return -1;
  int fd;
  do fd = ::open(path, flags | O_CLOEXEC, 0666);
  while (fd < 0 && errno == EINTR);
  return fd;
}

bool write_all(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    if (injected_fault()) return false;
    const ssize_t wrote = ::write(fd, bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(wrote));
  }
  return true;
}

bool flush_to_disk(int fd) {
  if (injected_fault()) return false;
  // EINVAL and EROFS: a pipe or device, which has nothing to flush.
  return ::fsync(fd) == 0 || errno == EINVAL || errno == EROFS || errno == ENOTSUP;
}

}  // namespace

Result<AtomicFile> AtomicFile::create(const fs::path& target) {
  if (target.empty()) return fail(ErrorCode::kIo, "cannot write a file without a name; give an output path");
  ignore_file_size_signal();
  AtomicFile file;
  file.shown_ = target;
  DIF_ASSIGN(file.target_, follow_links(target));

  struct stat existing {};
  const bool exists = ::stat(file.target_.c_str(), &existing) == 0;
  if (!exists && errno != ENOENT) return write_error(target, errno);
  if (exists && S_ISDIR(existing.st_mode)) return write_error(target, EISDIR);
  if (!exists && !file.target_.has_filename()) return write_error(target, ENOENT);  // "no-such-folder/"
  if (exists && !S_ISREG(existing.st_mode)) {
    file.direct_ = true;
    file.temporary_ = file.target_;
    file.fd_ = open_file(file.target_.c_str(), O_WRONLY);
    if (file.fd_ < 0) return write_error(target, errno);
    return file;
  }
  if (exists && ::faccessat(AT_FDCWD, file.target_.c_str(), W_OK, AT_EACCESS) != 0)
    return write_error(target, errno);

  std::error_code error;
  // Absolute: the process may change its folder before a signal removes the temporary.
  const fs::path folder = fs::absolute(folder_of(file.target_), error);
  if (error) return write_error(target, error.value());
  do {
    file.temporary_ = folder / temporary_name(file.target_);
    file.fd_ = open_file(file.temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL);
  } while (file.fd_ < 0 && errno == EEXIST);
  if (file.fd_ < 0) {
    const int open_errno = errno;
    file.temporary_.clear();
    return write_error(target, open_errno);
  }
  file.pending_ = arm(file.temporary_.native());
  if (exists) ::fchmod(file.fd_, existing.st_mode & 0777);
  return file;
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : shown_(std::move(other.shown_)),
      target_(std::move(other.target_)),
      temporary_(std::exchange(other.temporary_, {})),
      fd_(std::exchange(other.fd_, -1)),
      direct_(other.direct_),
      written_(other.written_),
      buffer_(std::move(other.buffer_)),
      pending_(std::exchange(other.pending_, nullptr)) {}

AtomicFile& AtomicFile::operator=(AtomicFile&& other) noexcept {
  if (this != &other) {
    discard();
    shown_ = std::move(other.shown_);
    target_ = std::move(other.target_);
    temporary_ = std::exchange(other.temporary_, {});
    fd_ = std::exchange(other.fd_, -1);
    direct_ = other.direct_;
    written_ = other.written_;
    buffer_ = std::move(other.buffer_);
    pending_ = std::exchange(other.pending_, nullptr);
  }
  return *this;
}

AtomicFile::~AtomicFile() {
  discard();
}

void AtomicFile::discard() noexcept {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
  if (!direct_ && !temporary_.empty()) ::unlink(temporary_.c_str());
  temporary_.clear();
  disarm(std::exchange(pending_, nullptr));
}

Status AtomicFile::flush_buffer() {
  if (!write_all(fd_, buffer_)) return write_error(shown_, errno);
  buffer_.clear();
  return ok();
}

Status AtomicFile::write(std::span<const std::byte> bytes) {
  DIF_CHECK(fd_ >= 0);
  if (buffer_.size() + bytes.size() > kBufferBytes) DIF_TRY(flush_buffer());
  if (bytes.size() >= kBufferBytes) {
    if (!write_all(fd_, bytes)) return write_error(shown_, errno);
  } else {
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  }
  written_ += bytes.size();
  return ok();
}

Status AtomicFile::commit(Flush flush) {
  DIF_CHECK(fd_ >= 0);
  DIF_TRY(flush_buffer());
  if (written_ == 0 && !direct_) {
    // Another program may have written it, and may have put a new file in the place of ours.
    ::close(fd_);
    fd_ = open_file(temporary_.c_str(), O_WRONLY);
    if (fd_ < 0) return write_error(shown_, errno);
  }
  if (flush == Flush::kToDisk && !flush_to_disk(fd_)) return write_error(shown_, errno);
  if (::close(std::exchange(fd_, -1)) != 0 && errno != EINTR) return write_error(shown_, errno);
  if (direct_) return ok();
  if (injected_fault() || ::rename(temporary_.c_str(), target_.c_str()) != 0)
    return write_error(shown_, errno);
  const fs::path folder = temporary_.parent_path();
  temporary_.clear();
  disarm(std::exchange(pending_, nullptr));
  if (flush == Flush::kToDisk) flush_folder(folder);
  return ok();
}

Status write_atomically(const fs::path& path, std::span<const std::byte> bytes) {
  return write_atomically(path, [&](AtomicFile& file) { return file.write(bytes); });
}

Status write_atomically(const fs::path& path, std::string_view text) {
  return write_atomically(path, std::as_bytes(std::span(text)));
}

Status write_atomically(const fs::path& path, const std::function<Status(AtomicFile&)>& writer) {
  DIF_ASSIGN(AtomicFile file, AtomicFile::create(path));
  DIF_TRY(writer(file));
  return file.commit();
}

void remove_pending_temporaries() noexcept {
  const int saved_errno = errno;
  for (PendingTemporary* node = all_pending.load(); node != nullptr; node = node->next) {
    int expected = PendingTemporary::kArmed;
    if (!node->state.compare_exchange_strong(expected, PendingTemporary::kUnlinking)) continue;
    ::unlink(node->path);
    node->state.store(PendingTemporary::kArmed);
  }
  errno = saved_errno;
}

int inject_write_fault(int nth, int error_number) {
  fault_errno.store(error_number);
  fault_countdown.store(nth);
  return operations.exchange(0);
}

}  // namespace dif::io
