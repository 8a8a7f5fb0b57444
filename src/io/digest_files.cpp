#include <algorithm>
#include <atomic>
#include <system_error>
#include <thread>
#include <utility>

#include "base/error.h"
#include "io/mapped_file.h"

namespace dif::io {

namespace {

Result<Digest> digest_of(const MappedFile& file) {
  constexpr std::size_t kPiece = 8 << 20;
  file.will_read_sequentially();
  Sha256 hash;
  for (std::span<const std::byte> rest = file.bytes(); !rest.empty();) {
    const std::size_t bytes = std::min(kPiece, rest.size());
    hash.update(rest.first(bytes));
    rest = rest.subspan(bytes);
  }
  DIF_TRY(file.check());
  return hash.finish();
}

}  // namespace

Result<std::vector<Digest>> digest_files(const std::vector<const MappedFile*>& files) {
  std::vector<Result<Digest>> results(files.size(), Result<Digest>(Digest{}));
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i; (i = next.fetch_add(1)) < files.size();) results[i] = digest_of(*files[i]);
  };
  const std::size_t wanted =
      std::min<std::size_t>(files.size(), std::max(1U, std::thread::hardware_concurrency()));
  std::vector<std::thread> helpers;
  for (std::size_t i = 1; i < wanted; ++i) {
    try {
      helpers.emplace_back(work);
    } catch (const std::system_error&) {
      break;  // no more threads: those that run do the work
    }
  }
  work();
  for (std::thread& helper : helpers) helper.join();

  std::vector<Digest> digests;
  for (Result<Digest>& result : results) {
    if (!result) return tl::unexpected<Error>(std::move(result.error()));
    digests.push_back(*result);
  }
  return digests;
}

}  // namespace dif::io
