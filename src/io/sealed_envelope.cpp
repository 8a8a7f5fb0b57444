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
  return {};
}

std::string describe_kind(std::string_view kind) {
  const std::string_view name = kind_name(kind);
  return name.empty() ? fmt::format("a file of kind \"{}\"", printable(kind)) : std::string(name);
}

Digest digest_of(std::span<const std::byte> before, std::span<const std::byte> payload) {
  Sha256 hash;
  hash.update(before);
  hash.update(payload);
  return hash.finish();
}

template <class T>
T load(std::span<const std::byte> file, std::size_t offset) {
  T value;
  std::memcpy(&value, file.data() + offset, sizeof(T));
  return value;
}

}  // namespace

std::vector<std::byte> seal(std::string_view kind, std::uint32_t version,
                            std::span<const std::byte> payload) {
  DIF_CHECK(kind.size() == 4);
  std::vector<std::byte> file(kEnvelopeHeaderBytes + payload.size());
  const std::uint64_t length = payload.size();
  std::memcpy(file.data(), kMagic.data(), kMagic.size());
  std::memcpy(file.data() + kKindAt, kind.data(), kind.size());
  std::memcpy(file.data() + kVersionAt, &version, sizeof version);
  std::memcpy(file.data() + kLengthAt, &length, sizeof length);
  const Digest digest = digest_of(std::span(file).first(kDigestAt), payload);
  std::memcpy(file.data() + kDigestAt, digest.data(), digest.size());
  if (!payload.empty()) std::memcpy(file.data() + kEnvelopeHeaderBytes, payload.data(), payload.size());
  return file;
}

Result<SealedPayload> open_sealed(std::span<const std::byte> file, std::string_view source,
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
  const Digest found = digest_of(file.first(kDigestAt), payload);
  if (found != expected)
    return invalid_input("{} is damaged: its SHA-256 is {}, expected {}; write it again", source, hex(found),
                         hex(expected));
  return SealedPayload{version, {payload.begin(), payload.end()}, found};
}

Result<SealedPayload> open_sealed_file(const std::filesystem::path& path, std::string_view kind,
                                       std::initializer_list<std::uint32_t> versions,
                                       std::uint64_t max_bytes) {
  DIF_ASSIGN(const std::vector<std::byte> file, read_file(path, max_bytes));
  return open_sealed(file, path.native(), kind, versions);
}

}  // namespace dif::io
