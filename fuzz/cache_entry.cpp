// A cache entry of any bytes, as the file that a key names, and as the content of a right envelope: found
// with exactly the stored data, or not there; never an error.

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "fuzz/promise.h"
#include "io/cache_store.h"
#include "io/sealed_envelope.h"

namespace {

namespace fs = std::filesystem;

const dif::io::CacheKey& key() {
  static const dif::io::CacheKey key = dif::io::CacheKey("fuzz", 1).add("field", "value");
  return key;
}

/// A folder for this process, removed at its end.
struct Folder {
  fs::path path = fs::temp_directory_path() / ("dif-fuzz-cache-" + std::to_string(getpid()));
  Folder() { fs::create_directories(path / "fuzz"); }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
};

void look_for(std::span<const std::byte> file) {
  static const Folder folder;
  const fs::path path = folder.path / "fuzz" / (dif::io::hex(key().digest()) + ".difcache");
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(file.data()), static_cast<std::streamsize>(file.size()));
  int warnings = 0;
  dif::io::CacheStore store(folder.path, [&](std::string_view) { ++warnings; });
  const auto checksum_of = [](std::span<const std::byte> bytes) {
    dif::io::CacheStore::Checksum sum{};
    for (std::size_t i = 0; i < bytes.size(); ++i) sum[i % sum.size()] ^= bytes[i];
    return sum;
  };
  dif::io::CacheStore large(folder.path, [](std::string_view) {});
  if (const auto found = large.find_large(key(), checksum_of))
    dif::fuzz::promise(std::ranges::equal(found->bytes, file.subspan(4096)), "large data follows its page");
  const auto found = store.find(key());
  dif::fuzz::promise(found.has_value() == (warnings == 0), "what is not used is said once");
  if (!found) return;
  dif::fuzz::promise(found->bytes.size() + 128 == file.size(), "the data is the rest of the file");
  dif::fuzz::promise(std::ranges::equal(found->bytes, file.subspan(128)), "and its bytes");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  look_for(bytes);
  std::vector<std::byte> payload(72);
  const dif::io::Digest digest = key().digest();
  std::ranges::copy(std::as_bytes(std::span(digest)), payload.begin());
  payload.insert(payload.end(), bytes.begin(), bytes.end());
  if (size % 2 == 1) std::ranges::reverse(payload);  // of another key
  look_for(dif::io::seal(dif::io::kCacheKind, 1, payload));
  payload.resize(4096 - dif::io::kEnvelopeHeaderBytes);
  std::vector<std::byte> file = dif::io::seal(dif::io::kCacheKind, 2, payload);
  file.insert(file.end(), bytes.begin(), bytes.end());
  look_for(file);
  return 0;
}
