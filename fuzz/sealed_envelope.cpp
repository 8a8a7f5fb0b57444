// An envelope of any bytes, and a good one with the input as payload: the first is refused or is byte for
// byte what seal() writes, the second opens.

#include "io/sealed_envelope.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "fuzz/promise.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using dif::io::kProgramKind;
  const auto bytes = std::as_bytes(std::span(data, size));
  if (const auto opened = dif::io::open_sealed(bytes, "input", kProgramKind, {1, 2})) {
    const auto again = dif::io::seal(kProgramKind, opened->version, opened->payload);
    dif::fuzz::promise(std::ranges::equal(again, bytes), "what opens is what seal() writes");
  }
  const auto sealed = dif::io::seal(kProgramKind, 1, bytes);
  const auto opened = dif::io::open_sealed(sealed, "sealed", kProgramKind, {1});
  dif::fuzz::promise(opened && std::ranges::equal(opened->payload, bytes), "what seal() writes opens");
  return 0;
}
