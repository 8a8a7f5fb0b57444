#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include "dif/status.h"
#include "io/digest.h"

namespace dif::io {

/// The envelope of .difir, .difbind, .difplan, .diftrain and .difcache (docs/file-formats.md):
///
///     0   8  magic  89 44 49 46 0d 0a 1a 0a ("\x89DIF\r\n\x1a\n")
///     8   4  kind, four ASCII characters
///     12  4  version of the payload's schema, u32 little-endian
///     16  8  payload bytes, u64 little-endian
///     24  32 SHA-256 over bytes 0..23 and the payload
///     56     payload, to the end of the file
inline constexpr std::string_view kProgramKind = "PROG";   ///< .difir
inline constexpr std::string_view kBundleKind = "BIND";    ///< .difbind
inline constexpr std::string_view kPlanKind = "PLAN";      ///< .difplan
inline constexpr std::string_view kTrainingKind = "TRAN";  ///< .diftrain
inline constexpr std::string_view kCacheKind = "CACH";     ///< .difcache

inline constexpr std::size_t kEnvelopeHeaderBytes = 56;

/// The sealed file. Pre: kind has 4 characters.
std::vector<std::byte> seal(std::string_view kind, std::uint32_t version, std::span<const std::byte> payload);

/// The header of a sealed file whose payload is `parts`, one after the other; for payloads too large to copy.
std::array<std::byte, kEnvelopeHeaderBytes> seal_header(std::string_view kind, std::uint32_t version,
                                                        std::span<const std::span<const std::byte>> parts);

struct SealedView {
  std::uint32_t version = 0;
  std::span<const std::byte> payload;  ///< within the file
  Digest digest{};
};

/// Like open_sealed, without copying the payload.
Result<SealedView> view_sealed(std::span<const std::byte> file, std::string_view source,
                               std::string_view kind, std::initializer_list<std::uint32_t> versions);

struct SealedPayload {
  std::uint32_t version = 0;
  std::vector<std::byte> payload;  ///< aligned to 16 bytes
  Digest digest{};                 ///< the envelope's
};

/// Opens an envelope. Errors (kInvalidInput, naming `source`): not such a file, another kind, a version not
/// in `versions`, truncated, trailing bytes, digest mismatch. Every change of a byte is one of these.
Result<SealedPayload> open_sealed(std::span<const std::byte> file, std::string_view source,
                                  std::string_view kind, std::initializer_list<std::uint32_t> versions);
/// The same from a file of at most `max_bytes`. Errors also: kNotFound, kIo.
Result<SealedPayload> open_sealed_file(const std::filesystem::path& path, std::string_view kind,
                                       std::initializer_list<std::uint32_t> versions,
                                       std::uint64_t max_bytes = 1ULL << 30);

}  // namespace dif::io
