// The sidecar of a .difir file, of any bytes: refused, or what the writer writes of it reads back the same.

#include "ir/provenance_file.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>

#include "fuzz/promise.h"
#include "ir/builder.h"
#include "ops/silu/silu.op.h"
#include "tests/support/paths.h"

namespace {

dif::ir::Program make_program() {
  dif::ir::Builder b("sidecar");
  const dif::ir::Value x = b.input("x", {dif::DType::kF32, {2}});
  b.output("y", dif::ops::silu(b, dif::ops::silu(b, x)));
  auto program = b.finish();
  dif::fuzz::promise(program.has_value(), "the program of this target is sound");
  return std::move(*program);
}

bool same(const dif::ir::Provenance& a, const dif::ir::Provenance& b) {
  const auto same_boundary = [](const auto& x, const auto& y) {
    return x.name == y.name && x.value == y.value;
  };
  return a.creator == b.creator && a.op_modules == b.op_modules &&
         std::ranges::equal(a.boundaries, b.boundaries, same_boundary);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using dif::fuzz::promise;
  static const dif::test::ScratchDir scratch;
  static const std::filesystem::path path = scratch / "p.difir";
  static dif::ir::Program program = make_program();

  std::ofstream(dif::ir::provenance_path(path), std::ios::binary)
      .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  program.provenance = {};
  if (!dif::ir::read_provenance(path, program)) {
    promise(same(program.provenance, {}), "a refused sidecar leaves nothing behind");
    return 0;
  }
  const dif::ir::Provenance read = program.provenance;
  promise(read.op_modules.empty() || read.op_modules.size() == program.ops.size(),
          "one module per operation");
  for (const auto& boundary : read.boundaries)
    promise(boundary.value < program.values.size(), "boundaries are values of the program");
  promise(dif::ir::write_provenance(path, program).has_value(), "what is read can be written");
  program.provenance = {};
  promise(dif::ir::read_provenance(path, program).has_value(), "what is written can be read");
  promise(same(program.provenance, read), "and is the same");
  return 0;
}
