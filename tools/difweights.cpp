#include <fmt/format.h>

#include <string>

#include "base/error.h"
#include "base/format.h"
#include "cli/command.h"
#include "io/weight_bundle.h"
#include "ir/printer.h"
#include "ir/program_file.h"
#include "pipelines/program_bindings.h"
#include "tools.h"
#include "weights_commands.h"

namespace dif::tools {

namespace {

Status inspect_bundle(const std::string& path) {
  DIF_ASSIGN(const io::BundleRecord record, io::read_weight_bundle(path));
  const auto bytes = [](std::uint64_t amount) { return ir::amount_text(static_cast<double>(amount), "B"); };
  std::string text = fmt::format("sealed for program {}\n", record.program);
  for (std::size_t i = 0; i < record.shards.size(); ++i)
    text += fmt::format("shard {}: {} {} sha256 {}\n", i, record.shards[i].path, bytes(record.shards[i].size),
                        io::hex(record.shards[i].sha256));
  std::uint64_t total = 0;
  for (const io::BundleTensor& tensor : record.tensors) {
    text += fmt::format("{} {}{} shard {} at {} + {}\n", tensor.name, tensor.dtype, tensor.shape,
                        tensor.shard, tensor.offset, tensor.bytes);
    total += tensor.bytes;
  }
  return cli::print_result(text + fmt::format("{} tensors, {}\n", record.tensors.size(), bytes(total)));
}

Status verify_bundle(const std::string& path, const std::string& program_path) {
  DIF_ASSIGN(const ir::Program program, ir::read_program(program_path));
  DIF_ASSIGN(const io::WeightBundle bundle, io::open_weight_bundle(path, {.verify_shards = true}));
  DIF_TRY(bind_constants(program, bundle));
  return cli::print_result(fmt::format("{}: sealed for {}, {} shards have their digests\n", path,
                                       program.name, bundle.shards().size()));
}

Status rebind_program(const std::string& from, const std::string& program_path, const std::string& to) {
  DIF_ASSIGN(const ir::Program program, ir::read_program(program_path));
  DIF_ASSIGN(const io::BundleRecord record, io::read_weight_bundle(from));
  DIF_ASSIGN(const io::BundleRecord rebound, rebind_bundle(record, from, program, to));
  DIF_TRY(io::write_weight_bundle(to, rebound));
  return cli::print_result(fmt::format("{}: sealed for program {}\n", to, rebound.program));
}

int run(int argc, char** argv) {
  cli::Command tool("difweights", "List and make checkpoints; list, check and re-seal weight bundles.");
  const ListingCommands listing(tool);
  const SynthCommand synth(tool);
  std::string bundle, program, out;
  cli::Command inspect = tool.add_subcommand("inspect-bundle", "list a bundle's shards and tensors");
  inspect.add_option("BUNDLE", bundle, "FILE.difbind").required();
  cli::Command verify =
      tool.add_subcommand("verify-bundle", "check a bundle against a program, and every shard's digest");
  verify.add_option("BUNDLE", bundle, "FILE.difbind").required();
  verify.add_option("PROGRAM", program, "FILE.difir").required();
  cli::Command rebind = tool.add_subcommand(
      "rebind-program", "seal a bundle again, for another program with the same constants");
  rebind.add_option("SEALED", bundle, "FILE.difbind").required();
  rebind.add_option("PROGRAM", program, "FILE.difir").required();
  rebind.add_option("OUT", out, "FILE.difbind to write").required();
  tool.add_examples(
      "  difweights stats models/emoji-klein/transformer\n"
      "  difweights synth --preset klein-4b --blocks 2,2 --small-encoder wide-klein\n"
      "  difweights synth --like models/emoji-klein --seed 3 --dtype f32 random-emoji\n"
      "  difweights inspect-bundle chain/step.difbind\n"
      "  difweights verify-bundle chain/step.difbind chain/step.difir\n"
      "  difc expose-tensors chain/step.difir probe.difir transformer.x_embedder\n"
      "  difweights rebind-program chain/step.difbind probe.difir probe.difbind\n");
  return cli::run_tool(tool, argc, argv, [&]() -> Status {
    if (listing.parsed()) return listing.run();
    if (synth.parsed()) return synth.run();
    if (inspect.parsed()) return inspect_bundle(bundle);
    if (verify.parsed()) return verify_bundle(bundle, program);
    return rebind_program(bundle, program, out);
  });
}

}  // namespace

const cli::Tool k_difweights = {"difweights", "Weights",
                                "list and make checkpoints; list, check and re-seal bundles", run};

}  // namespace dif::tools
