#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dif/status.h"

namespace dif::io {

struct PendingTemporary;

/// A file that appears under its final name only when it is complete: bytes go to a temporary beside the
/// target, commit() flushes it, renames it and flushes the folder. Without commit() the temporary is removed
/// and an existing target stays as it was. An existing target keeps its permissions; a symbolic link is
/// followed. A target that is not a regular file (/dev/null, a pipe) is written directly.
///
/// Every error names the target, the reason (folder missing, read-only, disk full, file size limit, a folder,
/// not writable) and what to do; its code is kIo.
class AtomicFile {
 public:
  static Result<AtomicFile> create(const std::filesystem::path& target);

  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&& other) noexcept;
  ~AtomicFile();

  Status write(std::span<const std::byte> bytes);
  Status write(std::string_view bytes) { return write(std::as_bytes(std::span(bytes))); }
  /// Bytes given to write() so far.
  std::uint64_t bytes_written() const { return written_; }

  /// Where the bytes are before commit(), for another program to write to (the target itself when it is
  /// written directly). Such a program replaces or appends to the file; it must not remove it.
  const std::filesystem::path& temporary_path() const { return temporary_; }
  const std::filesystem::path& target() const { return shown_; }

  enum class Flush { kToDisk, kLater };
  /// Flushes and gives the file its final name. Pre: called at most once; nothing is written afterwards.
  /// kLater: for what can be made again. The system writes it when it likes to, and after a loss of power the
  /// file may hold anything.
  Status commit(Flush flush = Flush::kToDisk);

 private:
  AtomicFile() = default;
  Status flush_buffer();
  void discard() noexcept;

  std::filesystem::path shown_;      // as the caller wrote it
  std::filesystem::path target_;     // symbolic links followed
  std::filesystem::path temporary_;  // absolute
  int fd_ = -1;
  bool direct_ = false;
  std::uint64_t written_ = 0;
  std::vector<std::byte> buffer_;
  PendingTemporary* pending_ = nullptr;
};

/// Writes `path` in one piece, or leaves it as it was. See AtomicFile.
Status write_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes);
Status write_atomically(const std::filesystem::path& path, std::string_view text);
/// The same with a callback that writes; an error that it returns is passed on and nothing is left behind.
Status write_atomically(const std::filesystem::path& path, const std::function<Status(AtomicFile&)>& writer);

/// Unlinks the temporaries of all AtomicFiles that are open in this process. Async-signal-safe: for the
/// handler or the last lines of a cancelled process.
void remove_pending_temporaries() noexcept;

/// For tests: the `nth` (from 1) of the following file operations of AtomicFile (open, write, fsync, rename)
/// in this process fails with `error_number`; 0 turns it off. Returns how many operations were made since the
/// last call.
int inject_write_fault(int nth, int error_number);

}  // namespace dif::io
