#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "cli/command.h"
#include "cli/dtype_options.h"
#include "cli/options.h"
#include "cli/streaming_options.h"
#include "cli/telemetry.h"
#include "frontends/flux2/text_encoder.h"
#include "io/atomic_file.h"
#include "io/json.h"
#include "io/safetensors.h"
#include "io/tensor_file.h"
#include "io/weight_bundle.h"
#include "ir/program_file.h"
#include "pipelines/program_bindings.h"
#include "pipelines/program_export.h"
#include "refused_options.h"
#include "runtime/finite.h"
#include "tools.h"

namespace dif::tools {

namespace {

namespace fs = std::filesystem;

const std::vector<MissingFeature> kMissing = {
    {"conditioner of Krea 2", {"--krea2"}, {}},
    {"conditioner of MiniMax-H3", {}, {"--ids", "--vision-inputs", "--vision-outputs", "--vision-tokens"}},
    {"ConvRot INT8 linears",
     {"--convrot-int8-weight-only-quality"},
     {"--convrot-int8-checkpoint", "--convrot-int8-linear-count"}},
    {"choice of the attention kernel (the backend takes the fastest that serves)", {}, {"--attention"}},
};

/// --flux2, which says whose conditioner it is, and the options of the others.
struct Frontend {
  explicit Frontend(cli::Command& command) : refused(command, kMissing) {
    command.add_flag("--flux2", flux2, "FLUX.2 [klein]: Qwen3, the hidden states after layers 9, 18 and 27");
  }
  Status check() const {
    DIF_TRY(refused.check());
    return flux2 ? ok() : invalid_input("say whose conditioner it is: --flux2 is the one of this version");
  }

  bool flux2 = false;
  RefusedOptions refused;
};

/// difcondition program
struct ProgramCommand {
  explicit ProgramCommand(cli::Command& tool)
      : command(tool.add_subcommand("program", "build the encoder's program")), frontend(command) {
    command.add_option("--checkpoint", checkpoint, "the text encoder's folder: config.json and weights")
        .required();
    command.add_option("--sequence", sequence, "tokens of a prompt").required().expect_whole(1);
    command.add_option("--output", output, "FILE.difir to write").required();
    command.add_option("--layers", layers, "layers to run (FLUX.2: 27)").expect_whole(1);
    command.add_option("--dtype", dtype, "arithmetic: f32, bf16").show_default();
  }
  Status run() const {
    DIF_TRY(frontend.check());
    DIF_ASSIGN(const DType arithmetic, cli::parse_dtype("--dtype", dtype, {DType::kF32, DType::kBF16}));
    DIF_ASSIGN(const auto encoder, frontends::flux2::TextEncoder::open(checkpoint));
    if (layers != 0 && layers != encoder.last_layer())
      return invalid_input("--layers {}: FLUX.2 reads the prompt after layer {}", layers,
                           encoder.last_layer());
    DIF_ASSIGN(const frontends::Stage stage, encoder.build(sequence, arithmetic));
    DIF_TRY(ir::write_program(output, stage.program));
    return cli::print_result(output + "\n");
  }

  cli::Command command;
  Frontend frontend;
  std::string checkpoint, output, dtype = "f32";
  std::int64_t sequence = 0, layers = 0;
};

/// difcondition bundle
struct BundleCommand {
  explicit BundleCommand(cli::Command& tool)
      : command(tool.add_subcommand("bundle", "bind the encoder's weights to its program")),
        frontend(command) {
    command.add_option("--checkpoint", checkpoint, "the text encoder's folder: config.json and weights")
        .required();
    command.add_option("--program", program, "FILE.difir that `program` wrote").required();
    command.add_option("--output", output, "FILE.difbind to write, with FILE.tables.safetensors beside it")
        .required();
    command.add_option("--sealed-bundle", sealed, "write the same bundle here too (every bundle is sealed)");
  }
  Status run() const {
    DIF_TRY(frontend.check());
    DIF_ASSIGN(const ir::Program given, ir::read_program(program));
    DIF_ASSIGN(const auto encoder, frontends::flux2::TextEncoder::open(checkpoint));
    if (given.inputs.empty() || given.outputs.empty() || given.type(given.inputs[0]).shape.rank() != 2)
      return invalid_input("{}: not a program of `difcondition program`", program);
    DIF_ASSIGN(const frontends::Stage stage, encoder.build(given.type(given.inputs[0]).shape.dim(1),
                                                           given.type(given.outputs[0].value).dtype));
    if (ir::fingerprint(stage.program) != ir::fingerprint(given))
      return invalid_input(
          "{}: this is not the program of the encoder in {}; make it again with `difcondition program`",
          program, checkpoint);
    DIF_TRY(export_bundle(stage, output));
    if (!sealed.empty()) DIF_TRY(export_bundle(stage, sealed));
    return cli::print_result(output + "\n");
  }

  cli::Command command;
  Frontend frontend;
  std::string checkpoint, program, output, sealed;
};

/// difcondition run
struct RunCommand {
  explicit RunCommand(cli::Command& tool)
      : command(tool.add_subcommand("run", "encode prompts")),
        frontend(command),
        backend(command),
        streaming(command) {
    command.add_option("--program", program, "FILE.difir that `program` wrote").required();
    command.add_option("--bundle", bundle, "FILE.difbind that `bundle` wrote").required();
    command.add_option("--inputs", inputs, "INPUTS.safetensors of `diftokenize --flux2-inputs-out`")
        .required();
    command
        .add_option("--output", output,
                    "FILE.safetensors for prompt_embeds and negative_prompt_embeds, or FILE.diftensor for "
                    "the prompt's alone")
        .required();
    command.add_option("--report", report, "JSON document about the run to write");
    command.add_flag("--resident-streamed", resident_streamed_,
                     "accepted: the planner decides which weights stay, under --max-vram");
    command.add_flag("--profile-pipeline", profile, "print the time of each stage on stderr");
  }

  Status run() {
    DIF_TRY(frontend.check());
    if (!output.ends_with(".safetensors") && !output.ends_with(".diftensor"))
      return invalid_input("--output {}: expected a name that ends in .safetensors or .diftensor", output);
    DIF_ASSIGN(const ir::Program encoder, ir::read_program(program));
    DIF_ASSIGN(const io::WeightBundle weights, io::open_weight_bundle(bundle, {}));
    DIF_ASSIGN(const auto constants, bind_constants(encoder, weights));
    runtime::ContextOptions options;
    DIF_TRY(streaming.apply(options));
    DIF_ASSIGN(auto context, backend.create(std::move(options), &choice_));
    backend_name_ = context->library().name();
    streaming.warn_unused(backend_name_);
    auto start = std::chrono::steady_clock::now();
    DIF_ASSIGN(const auto prepared, runtime::PreparedProgram::prepare(context, encoder, constants));
    note("prepare", start);
    std::vector<io::TensorToWrite> written;
    std::vector<io::HostTensor> results;
    results.reserve(2);
    for (const std::string prefix : {"", "negative_"}) {
      if (!prefix.empty() && output.ends_with(".diftensor")) break;
      start = std::chrono::steady_clock::now();
      DIF_ASSIGN(io::HostTensor embeds, encode(encoder, *prepared, prefix));
      note("encode", start);
      results.push_back(std::move(embeds));
      written.push_back({.name = prefix + "prompt_embeds",
                         .dtype = results.back().dtype,
                         .shape = results.back().shape,
                         .data = results.back().bytes()});
    }
    DIF_TRY(weights.check());
    DIF_TRY(output.ends_with(".diftensor") ? io::write_tensor_file(output, results.front())
                                           : io::write_safetensors(output, written));
    if (!report.empty()) DIF_TRY(io::write_atomically(report, io::json_text(document(encoder))));
    if (profile)
      for (const auto& [stage, seconds] : times_) cli::say(fmt::format("{:<9} {:8.3f} s\n", stage, seconds));
    return cli::print_result(output + "\n");
  }

 private:
  Result<io::HostTensor> encode(const ir::Program& encoder, runtime::PreparedProgram& prepared,
                                const std::string& prefix) const {
    std::vector<TensorArgument> arguments;
    for (const char* name : {"input_ids", "attention_mask"})
      arguments.push_back({name, inputs + "::" + prefix + name});
    DIF_ASSIGN(std::vector<io::HostTensor> given, read_inputs(encoder, arguments));
    std::vector<runtime::Binding> ins, outs;
    for (io::HostTensor& tensor : given)
      ins.push_back(runtime::Binding::of({tensor.dtype, tensor.shape}, tensor.data));
    const ir::TensorType& type = encoder.type(encoder.outputs.front().value);
    io::HostTensor embeds(type.dtype, type.shape);
    outs.push_back(runtime::Binding::of(type, embeds.data));
    DIF_TRY(prepared.run(ins, outs));
    if (!runtime::all_finite(type.dtype, embeds.bytes()))
      return fail(ErrorCode::kNonFinite, "{}prompt_embeds hold NaN or infinity; difrun names the operation",
                  prefix);
    return embeds;
  }

  void note(const char* stage, std::chrono::steady_clock::time_point start) {
    times_.emplace_back(stage, seconds_since(start));
  }

  nlohmann::ordered_json document(const ir::Program& encoder) const {
    nlohmann::ordered_json result = cli::telemetry_document("conditioning");
    result["backend"] = {{"name", backend_name_}, {"choice", choice_}};
    result["program"] = {{"name", encoder.name}, {"fingerprint", ir::fingerprint(encoder)}};
    for (const auto& [stage, seconds] : times_)
      result["stages"].push_back({{"stage", stage}, {"seconds", seconds}});
    return result;
  }

 public:
  cli::Command command;

 private:
  Frontend frontend;
  cli::BackendOptions backend;
  cli::StreamingOptions streaming;
  std::string program, bundle, inputs, output, report;
  bool profile = false, resident_streamed_ = false;
  std::string choice_, backend_name_;
  std::vector<std::pair<const char*, double>> times_;
};

int run(int argc, char** argv) {
  cli::Command tool(
      "difcondition",
      "Run the text encoder of a model by itself: its program, its weights, prompts to embeddings.");
  const ProgramCommand program(tool);
  const BundleCommand bundle(tool);
  RunCommand encode(tool);
  tool.add_examples(
      "  difcondition program --flux2 --checkpoint MODEL/text_encoder --sequence 512 --output encode.difir\n"
      "  difcondition bundle --flux2 --checkpoint MODEL/text_encoder --program encode.difir --output "
      "encode.difbind\n"
      "  diftokenize --processor MODEL/tokenizer --prompt \"a red apple\" --flux2-inputs-out "
      "inputs.safetensors\n"
      "  difcondition run --flux2 --program encode.difir --bundle encode.difbind --inputs inputs.safetensors "
      "--output positive.safetensors\n");
  return cli::run_tool(tool, argc, argv, [&]() -> Status {
    if (program.command.parsed()) return program.run();
    return bundle.command.parsed() ? bundle.run() : encode.run();
  });
}

}  // namespace

const cli::Tool k_difcondition = {"difcondition", "Text", "run a model's text encoder by itself", run};

}  // namespace dif::tools
