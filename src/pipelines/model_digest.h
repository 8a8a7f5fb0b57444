#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <stop_token>
#include <string>

#include "dif/status.h"
#include "frontends/model.h"
#include "io/cache_store.h"

namespace dif {

inline constexpr std::int64_t kSettledSeconds = 2;

/// Model::digest(), which reads every byte of the checkpoint, from the cache when no file has changed since:
/// each is still the same file (device and inode) of the same size, modified and changed at the same times.
/// A file that is younger than `settled_seconds` is read, for a change within one tick of the clock would not
/// show.
Result<std::string> model_digest(const frontends::Model& model, io::CacheStore& cache,
                                 std::int64_t settled_seconds = kSettledSeconds,
                                 const std::stop_token& stop = {});

/// model_digest() beside other work: of a large model seen for the first time it takes seconds. Who destroys
/// it early does not wait for the rest.
class BackgroundDigest {
 public:
  /// Both outlive it. Files of fewer bytes in all take less time than a thread is worth: they are read when
  /// the digest is asked for.
  BackgroundDigest(const frontends::Model& model, io::CacheStore& cache,
                   std::uint64_t least_bytes = std::uint64_t{256} << 20);
  BackgroundDigest(const BackgroundDigest&) = delete;
  BackgroundDigest& operator=(const BackgroundDigest&) = delete;
  ~BackgroundDigest() { stop_.request_stop(); }

  /// Waits for it, or until `stopped` says so. Pre: called once. Errors also: Cancelled.
  Result<std::string> get(const std::function<bool()>& stopped);

 private:
  std::stop_source stop_;
  std::future<Result<std::string>> digest_;  ///< its destructor waits
};

}  // namespace dif
