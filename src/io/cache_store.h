#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "dif/status.h"
#include "io/atomic_file.h"
#include "io/digest.h"
#include "io/mapped_file.h"

namespace dif::io {

/// Names what an entry was made from, field by field: everything that its bytes depend on, the version of the
/// code that makes them included. Two keys with the same fields in the same order are one key.
class CacheKey {
 public:
  /// `area` is a plain name, e.g. "packed-weights"; entries of one area lie in one folder. `version` changes
  /// with the layout of the entries or with how they are made.
  CacheKey(std::string_view area, std::uint32_t version);
  CacheKey& add(std::string_view field, std::string_view value);
  CacheKey& add(std::string_view field, std::uint64_t value);

  const std::string& area() const { return area_; }
  /// SHA-256 over the fields: each is the lengths of name and value (u64 little-endian), name, value.
  Digest digest() const;

 private:
  std::string area_;
  std::string fields_;
};

/// Bytes from the cache, mapped read-only: every process that uses them shares the memory.
struct CachedBytes {
  MappedFile file;                   ///< keeps `bytes`; its check() says whether they could all be read
  std::span<const std::byte> bytes;  ///< aligned to 64
};

/// Data that can be made again, kept in a folder between runs. Nothing here is an error: an entry that is
/// damaged, cannot be read or is of another version is not there, and a folder that cannot be written keeps
/// nothing. The first trouble is told through `warn`, once for each store.
///
/// Any number of processes may use one folder: an entry appears complete under its name or not at all, and
/// one that is removed stays readable for those who have it mapped. One thread at a time for each store.
///
/// A small entry is a sealed file (io/sealed_envelope.h) FOLDER/AREA/<64 hexadecimal characters of its
/// key>.difcache, whose payload is the key's digest, zeros up to byte 128 of the file, and the data. Of a
/// large one the first 4096 bytes are sealed: the key's digest, zeros up to byte 128, number of bytes (u64
/// little-endian) and checksum of the data, zeros; the data follows.
class CacheStore {
 public:
  using Warn = std::function<void(std::string_view sentence)>;
  static constexpr std::uint64_t kDefaultMaxBytes = std::uint64_t{8} << 30;

  /// An empty folder: the store is off. When the entries of the folder exceed `max_bytes`, those that were
  /// not used for the longest time are removed.
  explicit CacheStore(std::filesystem::path folder, Warn warn = {},
                      std::uint64_t max_bytes = kDefaultMaxBytes);

  bool is_on() const { return !folder_.empty(); }
  /// The entry of that key after its digest was recomputed (every byte is read), or nothing.
  std::optional<CachedBytes> find(const CacheKey& key);
  /// Keeps `parts`, one after the other; whether that worked.
  bool store(const CacheKey& key, std::span<const std::span<const std::byte>> parts);
  bool store(const CacheKey& key, std::span<const std::byte> bytes) {
    return store(key, std::span(&bytes, 1));
  }

  /// Large data, whose SHA-256 would take longer than to make it again: the caller has a faster way to tell
  /// damaged bytes. The data begins at a page and is not flushed to the disk.
  using Checksum = std::array<std::byte, 16>;
  using MakeChecksum = std::function<Checksum(std::span<const std::byte>)>;
  std::optional<CachedBytes> find_large(const CacheKey& key, const MakeChecksum& checksum_of);
  bool store_large(const CacheKey& key, std::span<const std::byte> bytes, const MakeChecksum& checksum_of);

  /// 32 random bytes that belong to this folder and that other users cannot read, drawn when they are first
  /// asked for: keys for hashes with which nobody who only makes files can provoke a collision. Nothing when
  /// the folder cannot keep them.
  std::optional<Digest> secret();

 private:
  void trouble(const Error& error);
  std::optional<MappedFile> open(const std::filesystem::path& path);
  bool write(const CacheKey& key, std::span<const std::byte> header,
             std::span<const std::span<const std::byte>> parts, AtomicFile::Flush flush);
  static void note_use(const std::filesystem::path& path);
  void make_room();
  std::filesystem::path path_of(const CacheKey& key) const;

  std::filesystem::path folder_;
  Warn warn_;
  std::uint64_t max_bytes_;
  bool warned_ = false;
};

}  // namespace dif::io
