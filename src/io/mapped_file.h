#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <stop_token>
#include <vector>

#include "dif/status.h"
#include "io/digest.h"

namespace dif::io {

struct MappingSlot;

/// A regular file mapped read-only, with its descriptor.
///
/// A file that shrinks (or whose disk fails) while it is mapped does not end the process: reads beyond what
/// is left give zeros, and check() reports it. So whoever used the bytes calls check() before the result is
/// believed. The guard is a SIGBUS handler that is installed with the first mapping and passes on what is not
/// ours.
class MappedFile {
 public:
  /// Errors: kNotFound; kIo (cannot be opened or mapped); kOutOfMemory (no address space for it);
  /// kInvalidInput (a folder or not a regular file).
  static Result<MappedFile> open(const std::filesystem::path& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  const std::filesystem::path& path() const { return path_; }
  int fd() const { return fd_; }
  std::uint64_t size() const { return size_; }
  /// The whole file; page aligned, valid until this object is destroyed (moving it keeps the address).
  std::span<const std::byte> bytes() const { return {data_, static_cast<std::size_t>(size_)}; }

  /// Fails when the file is shorter than it was when it was mapped, or when a part of it could not be read.
  Status check() const;

  /// Hints; never fail. Ranges are clipped to the file.
  void will_need(std::uint64_t offset, std::uint64_t bytes) const;
  void will_read_sequentially() const;
  void no_longer_needed(std::uint64_t offset, std::uint64_t bytes) const;

 private:
  MappedFile() = default;
  void close() noexcept;

  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  std::uint64_t size_ = 0;
  int fd_ = -1;
  MappingSlot* slot_ = nullptr;  // nothing for an empty file
};

/// SHA-256 of the content of each file, read in parallel. Errors: kIo (MappedFile::check), kCancelled.
Result<std::vector<Digest>> digest_files(const std::vector<const MappedFile*>& files,
                                         const std::stop_token& stop = {});

}  // namespace dif::io
