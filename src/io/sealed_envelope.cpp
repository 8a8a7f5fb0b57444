#include "io/sealed_envelope.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/error.h"
#include "io/file.h"
#include "io/printable.h"

namespace dif::io {

namespace {

constexpr std::string_view kMagic(
    "\x89"
    "DIF\r\n\x1a\n",
    8);
constexpr std::size_t kKindAt = 8, kVersionAt = 12, kLengthAt = 16, kDigestAt = 24;

std::string_view kind_name(std::string_view kind) {
  if (kind == kProgramKind) return "a program (.difir)";
  if (kind == kBundleKind) return "a weight bundle (.difbind)";
  if (kind == kPlanKind) return "a plan (.difplan)";
  if (kind == kTrainingKind) return "a training state (.diftrain)";
  if (kind == kCacheKind) return "a cache entry (.difcache)";
  return {};
}

std::string describe_kind(std::string_view kind) {
  const std::string_view name = kind_name(kind);
  return name.empty() ? fmt::format("a file of kind \"{}\"", printable(kind)) : std::string(name);
}

Digest digest_of(std::span<const std::byte> before, std::span<const std::span<const std::byte>> parts) {
  Sha256 hash;
  hash.update(before);
  for (const std::span<const std::byte> part : parts) hash.update(part);
  return hash.finish();
}

template <class T>
T load(std::span<const std::byte> file, std::size_t offset) {
  T value;
  std::memcpy(&value, file.data() + offset, sizeof(T));
  return value;
}

}  // namespace

std::array<std::byte, kEnvelopeHeaderBytes> seal_header(std::string_view kind, std::uint32_t version,
                                                        std::span<const std::span<const std::byte>> parts) {
  DIF_CHECK(kind.size() == 4);
  std::array<std::byte, kEnvelopeHeaderBytes> header{};
  std::uint64_t length = 0;
  for (const std::span<const std::byte> part : parts) length += part.size();
  std::memcpy(header.data(), kMagic.data(), kMagic.size());
  std::memcpy(header.data() + kKindAt, kind.data(), kind.size());
  std::memcpy(header.data() + kVersionAt, &version, sizeof version);
  std::memcpy(header.data() + kLengthAt, &length, sizeof length);
  const Digest digest = digest_of(std::span(header).first(kDigestAt), parts);
  std::memcpy(header.data() + kDigestAt, digest.data(), digest.size());
  return header;
}

std::vector<std::byte> seal(std::string_view kind, std::uint32_t version,
                            std::span<const std::byte> payload) {
  const auto header = seal_header(kind, version, std::span(&payload, 1));
  std::vector<std::byte> file(header.begin(), header.end());
  file.insert(file.end(), payload.begin(), payload.end());
  return file;
}

Result<SealedView> view_sealed(std::span<const std::byte> file, std::string_view source,
                               std::string_view kind, std::initializer_list<std::uint32_t> versions) {
  DIF_CHECK(kind.size() == 4);
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (!text.starts_with(kMagic.substr(0, std::min(kMagic.size(), text.size()))))
    return invalid_input("{} is not {}: it does not start with the mark of one", source, describe_kind(kind));
  if (file.size() < kEnvelopeHeaderBytes)
    return invalid_input("{} is truncated: {} bytes, expected at least {}; write it again", source,
                         file.size(), kEnvelopeHeaderBytes);
  if (const auto found = text.substr(kKindAt, 4); found != kind)
    return invalid_input("{} is {}, expected {}", source, describe_kind(found), describe_kind(kind));
  const auto version = load<std::uint32_t>(file, kVersionAt);
  if (std::find(versions.begin(), versions.end(), version) == versions.end())
    return invalid_input("{} has version {}, this program reads {}; write it again with this release", source,
                         version, fmt::join(versions, ", "));
  const auto length = load<std::uint64_t>(file, kLengthAt);
  const std::span<const std::byte> payload = file.subspan(kEnvelopeHeaderBytes);
  if (payload.size() < length)
    return invalid_input("{} is truncated: {} bytes of content, expected {}; write it again", source,
                         payload.size(), length);
  if (payload.size() > length)
    return invalid_input("{} has {} bytes after its content, expected none; write it again", source,
                         payload.size() - length);
  const auto expected = load<Digest>(file, kDigestAt);
  const Digest found = digest_of(file.first(kDigestAt), std::span(&payload, 1));
  if (found != expected)
    return invalid_input("{} is damaged: its SHA-256 is {}, expected {}; write it again", source, hex(found),
                         hex(expected));
  return SealedView{version, payload, found};
}

Result<SealedPayload> open_sealed(std::span<const std::byte> file, std::string_view source,
                                  std::string_view kind, std::initializer_list<std::uint32_t> versions) {
  DIF_ASSIGN(const SealedView view, view_sealed(file, source, kind, versions));
  return SealedPayload{view.version, {view.payload.begin(), view.payload.end()}, view.digest};
}

Result<SealedPayload> open_sealed_file(const std::filesystem::path& path, std::string_view kind,
                                       std::initializer_list<std::uint32_t> versions,
                                       std::uint64_t max_bytes) {
  DIF_ASSIGN(const std::vector<std::byte> file, read_file(path, max_bytes));
  return open_sealed(file, path.native(), kind, versions);
}

}  // namespace dif::io
