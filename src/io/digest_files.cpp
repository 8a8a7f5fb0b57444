#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/parallel.h"
#include "io/mapped_file.h"

namespace dif::io {

namespace {

Result<Digest> digest_of(const MappedFile& file, const std::stop_token& stop) {
  constexpr std::size_t kPiece = 8 << 20;
  file.will_read_sequentially();
  Sha256 hash;
  for (std::span<const std::byte> rest = file.bytes(); !rest.empty();) {
    if (stop.stop_requested())
      return fail(ErrorCode::kCancelled, "stopped before {} was read", file.path().native());
    const std::size_t bytes = std::min(kPiece, rest.size());
    hash.update(rest.first(bytes));
    rest = rest.subspan(bytes);
  }
  DIF_TRY(file.check());
  return hash.finish();
}

}  // namespace

Result<std::vector<Digest>> digest_files(const std::vector<const MappedFile*>& files,
                                         const std::stop_token& stop) {
  std::vector<Result<Digest>> results(files.size(), Result<Digest>(Digest{}));
  parallel_for(files.size(), files.size(), [&](std::size_t i) { results[i] = digest_of(*files[i], stop); });

  std::vector<Digest> digests;
  for (Result<Digest>& result : results) {
    if (!result) return tl::unexpected<Error>(std::move(result.error()));
    digests.push_back(*result);
  }
  return digests;
}

}  // namespace dif::io
