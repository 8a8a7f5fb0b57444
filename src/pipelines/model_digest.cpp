#include "pipelines/model_digest.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <system_error>

#include "base/error.h"
#include "io/digest.h"

namespace dif {

namespace {

std::uint64_t nanoseconds(const timespec& time) {
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(time.tv_nsec);
}

/// What the files are now; nothing when one is too young to tell.
std::optional<io::CacheKey> key_of(const frontends::Model& model, std::int64_t settled_seconds) {
  const auto now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  io::CacheKey key("model-digests", 1);
  for (const io::MappedFile* file : model.files()) {
    struct stat info {};
    if (::fstat(file->fd(), &info) != 0) return std::nullopt;
    if (std::max(info.st_mtim.tv_sec, info.st_ctim.tv_sec) + settled_seconds > now) return std::nullopt;
    key.add("device", info.st_dev);
    key.add("inode", info.st_ino);
    key.add("bytes", static_cast<std::uint64_t>(info.st_size));
    key.add("modified", nanoseconds(info.st_mtim));
    key.add("changed", nanoseconds(info.st_ctim));
  }
  return key;
}

}  // namespace

Result<std::string> model_digest(const frontends::Model& model, io::CacheStore& cache,
                                 std::int64_t settled_seconds, const std::stop_token& stop) {
  const std::optional<io::CacheKey> key = cache.is_on() ? key_of(model, settled_seconds) : std::nullopt;
  if (!key) return model.digest(stop);
  if (const auto found = cache.find(*key)) {
    std::string text(reinterpret_cast<const char*>(found->bytes.data()), found->bytes.size());
    if (found->file.check() && io::digest_from_hex(text)) return text;
  }
  DIF_ASSIGN(std::string digest, model.digest(stop));
  cache.store(*key, std::as_bytes(std::span(digest)));
  return digest;
}

BackgroundDigest::BackgroundDigest(const frontends::Model& model, io::CacheStore& cache,
                                   std::uint64_t least_bytes) {
  std::uint64_t bytes = 0;
  for (const io::MappedFile* file : model.files()) bytes += file->bytes().size();
  const auto read = [&model, &cache, stop = stop_.get_token()] {
    return model_digest(model, cache, kSettledSeconds, stop);
  };
  digest_ = std::async(std::launch::deferred, read);
  if (bytes < least_bytes) return;
  try {
    digest_ = std::async(std::launch::async, read);
  } catch (const std::system_error&) {
  }  // the system has no thread left
}

Result<std::string> BackgroundDigest::get(const std::function<bool()>& stopped) {
  constexpr std::chrono::milliseconds kPause(50);
  while (digest_.wait_for(kPause) == std::future_status::timeout)
    if (stopped()) return fail(ErrorCode::kCancelled, "stopped before the model's digest was computed");
  return digest_.get();
}

}  // namespace dif
