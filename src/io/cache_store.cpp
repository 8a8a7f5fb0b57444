#include "io/cache_store.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <random>
#include <system_error>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "io/sealed_envelope.h"

namespace dif::io {

namespace fs = std::filesystem;

namespace {

constexpr std::uint32_t kVersion = 1, kLargeVersion = 2, kSecretVersion = 3;
constexpr std::string_view kEnding = ".difcache";
constexpr std::string_view kTemporaryEnding = ".tmp";
/// Where the data begins in the file, and how much of the payload comes before it.
constexpr std::size_t kDataAt = 128;
constexpr std::size_t kHeadBytes = kDataAt - kEnvelopeHeaderBytes;
/// The same of a large entry: a page.
constexpr std::size_t kLargeDataAt = 4096;
constexpr std::string_view kSecretName = "secret";
/// A temporary that nobody has written to for so long belongs to a process that was killed.
constexpr auto kAbandonedAfter = std::chrono::hours(1);

using Head = std::array<std::byte, kHeadBytes>;

Head head_of(const CacheKey& key) {
  Head head{};
  const Digest digest = key.digest();
  std::memcpy(head.data(), digest.data(), digest.size());
  return head;
}

/// What is sealed of a large entry.
std::vector<std::byte> large_head(const CacheKey& key, std::uint64_t bytes,
                                  const CacheStore::Checksum& checksum) {
  std::vector<std::byte> payload(kLargeDataAt - kEnvelopeHeaderBytes);
  std::ranges::copy(head_of(key), payload.begin());
  std::memcpy(payload.data() + kHeadBytes, &bytes, sizeof(bytes));
  std::ranges::copy(checksum, payload.begin() + kHeadBytes + sizeof(bytes));
  return payload;
}

void append_field(std::string& to, std::string_view field, std::string_view value) {
  for (const std::uint64_t length : {field.size(), value.size()}) {
    char bytes[sizeof(length)];
    std::memcpy(bytes, &length, sizeof(length));
    to.append(bytes, sizeof(bytes));
  }
  to.append(field).append(value);
}

struct Entry {
  fs::path path;
  std::uint64_t bytes = 0;
  fs::file_time_type used;
};

/// The entries below `folder`; temporaries of processes that are gone are removed on the way. Files of other
/// names are nobody's business here.
std::vector<Entry> list_entries(const fs::path& folder) {
  std::vector<Entry> entries;
  std::error_code error;
  for (fs::directory_iterator area(folder, error), end; !error && area != end; area.increment(error)) {
    std::error_code inner;
    for (fs::directory_iterator file(area->path(), inner); !inner && file != end; file.increment(inner)) {
      std::error_code gone;  // another process may remove it meanwhile
      const std::string name = file->path().filename().native();
      const fs::file_time_type used = file->last_write_time(gone);
      const std::uint64_t bytes = gone ? 0 : file->file_size(gone);
      if (gone) continue;
      if (name.ends_with(kEnding)) entries.push_back({file->path(), bytes, used});
      const bool temporary = name.starts_with(".") && name.ends_with(kTemporaryEnding) &&
                             name.find(kEnding) != std::string::npos;
      if (temporary && fs::file_time_type::clock::now() - used > kAbandonedAfter)
        fs::remove(file->path(), gone);
    }
  }
  return entries;
}

}  // namespace

CacheKey::CacheKey(std::string_view area, std::uint32_t version) : area_(area) {
  DIF_CHECK(!area.empty() && area.find_first_of("/.") == std::string_view::npos);
  add("area", area);
  add("version", version);
}

CacheKey& CacheKey::add(std::string_view field, std::string_view value) {
  append_field(fields_, field, value);
  return *this;
}

CacheKey& CacheKey::add(std::string_view field, std::uint64_t value) {
  char bytes[sizeof(value)];
  std::memcpy(bytes, &value, sizeof(value));
  append_field(fields_, field, std::string_view(bytes, sizeof(bytes)));
  return *this;
}

Digest CacheKey::digest() const {
  return sha256(std::string_view(fields_));
}

CacheStore::CacheStore(fs::path folder, Warn warn, std::uint64_t max_bytes)
    : folder_(std::move(folder)), warn_(std::move(warn)), max_bytes_(max_bytes) {}

fs::path CacheStore::path_of(const CacheKey& key) const {
  return folder_ / key.area() / (hex(key.digest()) + std::string(kEnding));
}

void CacheStore::trouble(const Error& error) {
  if (warned_ || !warn_) return;
  warned_ = true;
  warn_(fmt::format("the cache is not used: {}", error.message));
}

std::optional<MappedFile> CacheStore::open(const fs::path& path) {
  if (!is_on()) return std::nullopt;
  Result<MappedFile> file = MappedFile::open(path);
  if (file) return std::move(*file);
  if (file.error().code != ErrorCode::kNotFound) trouble(file.error());
  return std::nullopt;
}

std::optional<CachedBytes> CacheStore::find(const CacheKey& key) {
  const fs::path path = path_of(key);
  std::optional<MappedFile> file = open(path);
  if (!file) return std::nullopt;
  const auto view = view_sealed(file->bytes(), path.native(), kCacheKind, {kVersion});
  if (!view) {
    trouble(view.error());
    return std::nullopt;
  }
  const Head head = head_of(key);
  if (const Status whole = file->check(); !whole) {
    trouble(whole.error());
    return std::nullopt;
  }
  if (view->payload.size() < head.size() || !std::ranges::equal(view->payload.first(head.size()), head)) {
    trouble({ErrorCode::kInvalidInput, fmt::format("{} is the entry of another key", path.native())});
    return std::nullopt;
  }
  note_use(path);
  const std::span<const std::byte> bytes = view->payload.subspan(head.size());
  return CachedBytes{std::move(*file), bytes};
}

std::optional<CachedBytes> CacheStore::find_large(const CacheKey& key, const MakeChecksum& checksum_of) {
  const fs::path path = path_of(key);
  std::optional<MappedFile> file = open(path);
  if (!file) return std::nullopt;
  const std::span<const std::byte> sealed =
      file->bytes().first(std::min<std::size_t>(kLargeDataAt, file->bytes().size()));
  const auto view = view_sealed(sealed, path.native(), kCacheKind, {kLargeVersion});
  if (!view) {
    trouble(view.error());
    return std::nullopt;
  }
  const std::span<const std::byte> bytes = file->bytes().subspan(sealed.size());
  const bool right = std::ranges::equal(view->payload, large_head(key, bytes.size(), checksum_of(bytes)));
  if (const Status whole = file->check(); !whole) {
    trouble(whole.error());
    return std::nullopt;
  }
  if (!right) {
    trouble(
        {ErrorCode::kInvalidInput, fmt::format("{} is damaged, or the entry of another key", path.native())});
    return std::nullopt;
  }
  note_use(path);
  return CachedBytes{std::move(*file), bytes};
}

bool CacheStore::store(const CacheKey& key, std::span<const std::span<const std::byte>> parts) {
  if (!is_on()) return false;
  const Head head = head_of(key);
  std::vector<std::span<const std::byte>> payload = {head};
  payload.insert(payload.end(), parts.begin(), parts.end());
  return write(key, seal_header(kCacheKind, kVersion, payload), payload, AtomicFile::Flush::kToDisk);
}

bool CacheStore::store_large(const CacheKey& key, std::span<const std::byte> bytes,
                             const MakeChecksum& checksum_of) {
  if (!is_on()) return false;
  const std::vector<std::byte> head = large_head(key, bytes.size(), checksum_of(bytes));
  const std::span<const std::byte> sealed[] = {head}, parts[] = {head, bytes};
  return write(key, seal_header(kCacheKind, kLargeVersion, sealed), parts, AtomicFile::Flush::kLater);
}

bool CacheStore::write(const CacheKey& key, std::span<const std::byte> header,
                       std::span<const std::span<const std::byte>> parts, AtomicFile::Flush flush) {
  std::uint64_t bytes = 0;
  for (const std::span<const std::byte> part : parts) bytes += part.size();
  if (bytes > max_bytes_) return false;
  const fs::path path = path_of(key);
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  const Status written = [&]() -> Status {
    DIF_ASSIGN(AtomicFile file, AtomicFile::create(path));
    DIF_TRY(file.write(header));
    for (const std::span<const std::byte> part : parts) DIF_TRY(file.write(part));
    return file.commit(flush);
  }();
  if (!written) {
    trouble(written.error());
    return false;
  }
  make_room();
  return true;
}

std::optional<Digest> CacheStore::secret() {
  const fs::path path = folder_ / kSecretName;
  const auto read = [&]() -> std::optional<Digest> {
    const std::optional<MappedFile> file = open(path);
    if (!file) return std::nullopt;
    const auto view = view_sealed(file->bytes(), path.native(), kCacheKind, {kSecretVersion});
    Digest found{};
    if (!view || view->payload.size() != found.size()) return std::nullopt;
    std::memcpy(found.data(), view->payload.data(), found.size());
    return found;
  };
  if (!is_on()) return std::nullopt;
  if (const auto kept = read()) return kept;
  std::random_device random;
  std::array<std::uint32_t, sizeof(Digest) / sizeof(std::uint32_t)> drawn;
  for (std::uint32_t& word : drawn) word = random();
  std::error_code error;
  fs::create_directories(folder_, error);
  const Status written = [&]() -> Status {
    DIF_ASSIGN(AtomicFile file, AtomicFile::create(path));
    fs::permissions(file.temporary_path(), fs::perms::owner_read | fs::perms::owner_write, error);
    DIF_TRY(file.write(seal(kCacheKind, kSecretVersion, std::as_bytes(std::span(drawn)))));
    return file.commit();
  }();
  if (!written) trouble(written.error());
  return read();  // another process may have written its own meanwhile
}

void CacheStore::note_use(const fs::path& path) {
  std::error_code ignored;  // a folder that cannot be written keeps its order of removal
  fs::last_write_time(path, fs::file_time_type::clock::now(), ignored);
}

void CacheStore::make_room() {
  std::vector<Entry> entries = list_entries(folder_);
  std::uint64_t total = 0;
  for (const Entry& entry : entries) total += entry.bytes;
  if (total <= max_bytes_) return;
  std::ranges::sort(entries, {}, &Entry::used);
  for (const Entry& entry : entries) {
    if (total <= max_bytes_) return;
    std::error_code ignored;
    fs::remove(entry.path, ignored);
    total -= entry.bytes;
  }
}

}  // namespace dif::io
