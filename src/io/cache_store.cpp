#include "io/cache_store.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <system_error>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "io/atomic_file.h"
#include "io/sealed_envelope.h"

namespace dif::io {

namespace fs = std::filesystem;

namespace {

constexpr std::uint32_t kVersion = 1;
constexpr std::string_view kEnding = ".difcache";
constexpr std::string_view kTemporaryEnding = ".tmp";
/// Where the data begins in the file, and how much of the payload comes before it.
constexpr std::size_t kDataAt = 128;
constexpr std::size_t kHeadBytes = kDataAt - kEnvelopeHeaderBytes;
/// A temporary that nobody has written to for so long belongs to a process that was killed.
constexpr auto kAbandonedAfter = std::chrono::hours(1);

using Head = std::array<std::byte, kHeadBytes>;

Head head_of(const CacheKey& key) {
  Head head{};
  const Digest digest = key.digest();
  std::memcpy(head.data(), digest.data(), digest.size());
  return head;
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

std::optional<CachedBytes> CacheStore::find(const CacheKey& key) {
  if (!is_on()) return std::nullopt;
  const fs::path path = path_of(key);
  Result<MappedFile> file = MappedFile::open(path);
  if (!file) {
    if (file.error().code != ErrorCode::kNotFound) trouble(file.error());
    return std::nullopt;
  }
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
  std::error_code ignored;  // a folder that cannot be written keeps its order of removal
  fs::last_write_time(path, fs::file_time_type::clock::now(), ignored);
  const std::span<const std::byte> bytes = view->payload.subspan(head.size());
  return CachedBytes{std::move(*file), bytes};
}

bool CacheStore::store(const CacheKey& key, std::span<const std::span<const std::byte>> parts) {
  if (!is_on()) return false;
  const Head head = head_of(key);
  std::vector<std::span<const std::byte>> payload = {head};
  payload.insert(payload.end(), parts.begin(), parts.end());
  std::uint64_t bytes = 0;
  for (const std::span<const std::byte> part : payload) bytes += part.size();
  if (bytes > max_bytes_) return false;

  const fs::path path = path_of(key);
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  const Status written = write_atomically(path, [&](AtomicFile& file) -> Status {
    DIF_TRY(file.write(seal_header(kCacheKind, kVersion, payload)));
    for (const std::span<const std::byte> part : payload) DIF_TRY(file.write(part));
    return ok();
  });
  if (!written) {
    trouble(written.error());
    return false;
  }
  make_room();
  return true;
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
