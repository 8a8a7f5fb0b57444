// A DiffIR FlatBuffer of any bytes: the payload of a .difir file, and what a plug-in gets through the C
// interface. Half of the mutations change a valid program and encode it again. What is accepted goes through
// the passes, which promise a verified program with the same inputs and outputs.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>

#include "fuzz/program_mutation.h"
#include "fuzz/promise.h"
#include "ir/printer.h"
#include "ir/program_file.h"
#include "ir/verifier.h"
#include "opt/pipeline.h"

namespace {

/// The passes keep what a run binds.
void optimise(const dif::ir::Program& before) {
  dif::ir::Program after = before;
  const auto reports = dif::opt::run(after, dif::opt::default_pipeline());
  if (!reports) std::fprintf(stderr, "%s\n", reports.error().message.c_str());
  dif::fuzz::promise(reports.has_value(), "the passes leave a verified program");
  dif::fuzz::promise(after.inputs.size() == before.inputs.size(), "with the inputs that it had");
  for (std::size_t i = 0; i < before.inputs.size(); ++i) {
    const auto &a = after.values[after.inputs[i]], &b = before.values[before.inputs[i]];
    dif::fuzz::promise(a.name == b.name && a.type == b.type, "of the same names and types");
  }
  dif::fuzz::promise(after.outputs.size() == before.outputs.size(), "and the outputs");
  for (std::size_t i = 0; i < before.outputs.size(); ++i)
    dif::fuzz::promise(after.outputs[i].name == before.outputs[i].name &&
                           after.type(after.outputs[i].value) == before.type(before.outputs[i].value),
                       "of the same names and types");
}

}  // namespace

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
  optimise(*program);
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
