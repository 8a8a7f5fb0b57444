// A .diftensor of any bytes, and the same with a right digest at its end, so that the fuzzer gets past it.

#include "io/tensor_file.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "fuzz/promise.h"
#include "io/digest.h"

namespace {

void parse(std::span<const std::byte> file) {
  const auto view = dif::io::parse_tensor_file(file, "input");
  if (!view) return;
  dif::fuzz::promise(view->data.size() < file.size(), "the data lies in the file");
  dif::fuzz::promise(view->data.data() > file.data(), "after the header");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  parse(bytes);
  std::vector<std::byte> with_digest(bytes.begin(), bytes.end());
  const auto digest = dif::io::sha256(bytes);
  const auto tail = std::as_bytes(std::span(digest));
  with_digest.insert(with_digest.end(), tail.begin(), tail.end());
  parse(with_digest);
  return 0;
}
