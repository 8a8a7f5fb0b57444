#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "ir/printer.h"
#include "ir/program_file.h"
#include "ir/verifier.h"
#include "pipelines/program_bindings.h"
#include "tools.h"

namespace dif::tools {

namespace {

Status verify(const std::string& path) {
  DIF_ASSIGN(const ir::Program program, ir::read_program(path));
  return cli::print_result(fmt::format("{}: program {} is verified: {} operations, {} constants, {}\n", path,
                                       program.name, program.ops.size(), program.constants.size(),
                                       ir::amount_text(ir::flops(program), "FLOP")));
}

Status fingerprint(const std::string& path) {
  DIF_ASSIGN(const ir::Program program, ir::read_program(path));
  return cli::print_result(ir::fingerprint(program) + "\n");
}

/// The name of a new output: what the reference framework calls the value, else its number.
std::string output_name(const ir::Program& program, ir::ValueId value) {
  for (const ir::Provenance::Boundary& boundary : program.provenance.boundaries)
    if (boundary.value == value) return boundary.name;
  return fmt::format("value-{}", value);
}

Status expose(const std::string& in, const std::string& out, const std::vector<std::string>& ids) {
  DIF_ASSIGN(ir::Program program, ir::read_program(in));
  std::vector<ir::Output> outputs;
  for (const std::string& id : ids) {
    DIF_ASSIGN(const ir::ValueId value, find_value(program, id));
    outputs.push_back({output_name(program, value), value});
  }
  ir::expose(program, outputs);
  DIF_TRY(ir::verify(program));
  DIF_TRY(ir::write_program(out, program));
  std::string text;
  for (const ir::Output& output : outputs)
    text += fmt::format("{} = %{} : {}\n", output.name, output.value, program.type(output.value));
  return cli::print_result(text);
}

int run(int argc, char** argv) {
  CLI::App app{"Verify, identify and rewrite programs.", "difc"};
  app.require_subcommand(1);
  std::string in, out;
  std::vector<std::string> ids;
  CLI::App* const verify_command = app.add_subcommand("verify", "check everything that a program promises");
  verify_command->add_option("FILE", in, "program, FILE.difir")->required();
  CLI::App* const fingerprint_command = app.add_subcommand("fingerprint", "print a program's identity");
  fingerprint_command->add_option("FILE", in, "program, FILE.difir")->required();
  CLI::App* const expose_command =
      app.add_subcommand("expose-tensors", "make internal values outputs, under their module path if known");
  expose_command->add_option("IN", in, "program, IN.difir")->required();
  expose_command->add_option("OUT", out, "program to write, OUT.difir")->required();
  expose_command
      ->add_option("ID", ids, "number of a value (12 or %12), or the module path whose result it is")
      ->required();
  cli::examples(app,
                "  difc verify step.difir\n"
                "  difc fingerprint step.difir\n"
                "  difc expose-tensors step.difir probe.difir transformer.transformer_blocks.0.attn 212\n");
  return cli::run_app(app, argc, argv, [&]() -> Status {
    if (verify_command->parsed()) return verify(in);
    if (fingerprint_command->parsed()) return fingerprint(in);
    return expose(in, out, ids);
  });
}

}  // namespace

const cli::Tool k_difc = {"difc", "Programs", "verify, fingerprint and rewrite programs", run};

}  // namespace dif::tools
