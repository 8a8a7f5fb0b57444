// A DiffIR FlatBuffer of any bytes: the payload of a .difir file, and what a plug-in gets through the C
// interface. Half of the mutations change a valid program and encode it again.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "fuzz/program_mutation.h"
#include "fuzz/promise.h"
#include "ir/printer.h"
#include "ir/program_file.h"
#include "ir/verifier.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto program = dif::ir::decode(bytes);
  if (!program) {
    dif::fuzz::promise(program.error().message.size() < 4096, "a refusal is one sentence");
    return 0;
  }
  dif::fuzz::promise(dif::ir::verify(*program).has_value(), "an accepted program is verified");
  dif::fuzz::promise(std::ranges::equal(dif::ir::encode(*program), bytes), "one program has one form");
  dif::fuzz::promise(dif::ir::fingerprint(*program).size() == 64, "and a fingerprint");
  (void)dif::ir::to_text(*program, {.modules = true, .costs = true});
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  dif::fuzz::Random random(seed);
  auto program = dif::ir::decode(std::as_bytes(std::span(data, size)));
  if (!program || random.one_in(4)) return dif::fuzz::mutate_bytes(data, size, max_size, random);
  dif::fuzz::ProgramMutation(*program, random).run();
  const std::vector<std::byte> bytes = dif::ir::encode(*program);
  const std::size_t new_size = dif::fuzz::replace_or_mutate(bytes, data, size, max_size, random);
  return random.one_in(4) ? dif::fuzz::mutate_bytes(data, new_size, max_size, random) : new_size;
}
