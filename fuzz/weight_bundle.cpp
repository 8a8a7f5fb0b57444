// The payload of a .difbind of any bytes, in a right envelope: refused, or byte for byte what the writer
// writes.

#include "io/weight_bundle.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "fuzz/promise.h"
#include "io/sealed_envelope.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto sealed = dif::io::seal(dif::io::kBundleKind, 1, std::as_bytes(std::span(data, size)));
  const auto record = dif::io::parse_weight_bundle(sealed, "input");
  if (!record) return 0;
  const auto again = dif::io::encode_weight_bundle(*record);
  dif::fuzz::promise(again && std::ranges::equal(*again, sealed), "what is read is what the writer writes");
  return 0;
}
