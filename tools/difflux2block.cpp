#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/command.h"
#include "cli/dtype_options.h"
#include "cli/options.h"
#include "cli/telemetry.h"
#include "frontends/flux2/part_file.h"
#include "io/atomic_file.h"
#include "io/json.h"
#include "io/safetensors.h"
#include "ir/program_file.h"
#include "opt/pipeline.h"
#include "output_files.h"
#include "pipelines/boundary_gate.h"
#include "refused_options.h"
#include "tools.h"

namespace dif::tools {

namespace {

using frontends::flux2::TransformerFile;
using frontends::flux2::VaeFile;

const std::vector<MissingFeature> kMissing = {
    {"choice of the attention kernel (the backend takes the fastest that serves)", {}, {"--attention"}},
    {"choice of a product's algorithm", {"--expand-linear-algorithms"}, {"--select-linear-algorithm"}},
};

/// Seen on the bundled model against diffusers in f32: 2.3e-6 in f32; in bf16 1.5e-2 in a block, 4e-2 through
/// all of them.
constexpr double kMaxRelL2F32 = 2e-5, kMaxRelL2BF16 = 3e-2, kMaxRelL2BF16Whole = 1e-1;

struct Options {
  std::string checkpoint, fixture, output, report, program, dtype = "f32", passes = "default";
  std::vector<std::string> captures;
  std::int64_t image_tokens = 0, text_tokens = 0, batch = 1, block = 0;
  std::int64_t double_depth = 0, single_depth = 0, latent_height = 0, latent_width = 0;
  bool single = false, transformer = false, vae = false;
  std::optional<double> min_cosine, max_rel_l2;
};

class Gate {
 public:
  Gate(const Options& options, const cli::BackendOptions& backend) : options_(options), backend_(backend) {}

  Status run() {
    DIF_TRY(check_outputs(
        {{"--output", options_.output}, {"--report", options_.report}, {"--diffir", options_.program}}));
    DIF_ASSIGN(dtype_, cli::parse_dtype("--dtype", options_.dtype, {DType::kF32, DType::kBF16}));
    DIF_ASSIGN(const opt::Pipeline passes, opt::parse_pipeline(options_.passes));
    DIF_ASSIGN(const frontends::Stage stage, build());
    DIF_TRY(ir::write_program(options_.program, stage.program));
    DIF_ASSIGN(const io::SafetensorsFile fixture, io::open_safetensors(options_.fixture));
    bars_.min_cosine = options_.min_cosine;
    const double in_bf16 = options_.transformer || options_.vae ? kMaxRelL2BF16Whole : kMaxRelL2BF16;
    bars_.max_rel_l2 = options_.max_rel_l2.value_or(dtype_ == DType::kF32 ? kMaxRelL2F32 : in_bf16);
    DIF_ASSIGN(auto context, backend_.create({}, &choice_));
    backend_name_ = context->library().name();
    DIF_ASSIGN(const GateResult gate, run_gate(context, stage, fixture, options_.captures, bars_, passes));
    DIF_TRY(write_results(gate));
    DIF_TRY(io::write_atomically(options_.report, io::json_text(document(gate, stage.program))));
    return say_verdict(gate);
  }

 private:
  /// The parts stay open: the stage's constants are theirs.
  Result<frontends::Stage> build() {
    if (options_.vae) {
      DIF_ASSIGN(VaeFile vae, VaeFile::open(options_.checkpoint));
      vae_ = std::move(vae);
      return vae_->decoder(options_.latent_height, options_.latent_width, dtype_);
    }
    DIF_ASSIGN(TransformerFile transformer, TransformerFile::open(options_.checkpoint));
    transformer_ = std::move(transformer);
    const frontends::flux2::RowCounts rows = {options_.batch, options_.image_tokens, options_.text_tokens};
    if (options_.transformer)
      return transformer_->transformer(options_.double_depth, options_.single_depth, rows, dtype_);
    return options_.single ? transformer_->single_block(options_.block, rows, dtype_)
                           : transformer_->double_block(options_.block, rows, dtype_);
  }

  Status write_results(const GateResult& gate) const {
    std::vector<io::TensorToWrite> tensors;
    for (const auto& [name, tensor] : gate.results)
      tensors.push_back({.name = name, .dtype = tensor.dtype, .shape = tensor.shape, .data = tensor.bytes()});
    return io::write_safetensors(options_.output, tensors);
  }

  nlohmann::ordered_json document(const GateResult& gate, const ir::Program& program) const {
    nlohmann::ordered_json result = cli::telemetry_document("parity");
    result["verdict"] = gate.passed() ? "PASS" : "FAIL";
    result["program"] = {{"name", program.name}, {"fingerprint", ir::fingerprint(program)}};
    result["backend"] = {{"name", backend_name_}, {"choice", choice_}};
    result["dtype"] = dtype_name(dtype_);
    result["bars"] = {{"max_rel_l2", *bars_.max_rel_l2}};
    if (bars_.min_cosine) result["bars"]["min_cos"] = *bars_.min_cosine;
    for (const GateRow& row : gate.rows)
      result["boundaries"].push_back({{"boundary", row.boundary},
                                      {"verdict", row.broken.empty() ? "PASS" : "FAIL"},
                                      {"rel_l2", row.comparison.rel_l2},
                                      {"cosine", row.comparison.cosine},
                                      {"max_abs", row.comparison.max_abs},
                                      {"nonfinite", row.comparison.actual_nonfinite}});
    return result;
  }

  static Status say_verdict(const GateResult& gate) {
    std::string broken;
    for (const GateRow& row : gate.rows) {
      DIF_TRY(cli::print_result(fmt::format("{} {}: {}\n", row.broken.empty() ? "PASS" : "FAIL", row.boundary,
                                            io::describe(row.comparison))));
      if (broken.empty() && !row.broken.empty())
        broken = fmt::format("{}: {}", row.boundary, fmt::join(row.broken, "; "));
    }
    return gate.passed() ? ok() : fail(ErrorCode::kAnswerNo, "{}", broken);
  }

  const Options& options_;
  const cli::BackendOptions& backend_;
  DType dtype_ = DType::kF32;
  io::ComparisonBars bars_;
  std::optional<TransformerFile> transformer_;
  std::optional<VaeFile> vae_;
  std::string choice_, backend_name_;
};

int run(int argc, char** argv) {
  cli::Command command(
      "difflux2block",
      "Hold a block of FLUX.2, its transformer or its picture decoder against a fixture: PASS or FAIL (exit "
      "1).");
  Options o;
  command.add_option("--checkpoint", o.checkpoint, "the transformer's or autoencoder's .safetensors")
      .required();
  command.add_option("--fixture", o.fixture, "creator.safetensors: inputs and results (docs/parity.md)")
      .required();
  command.add_option("--output", o.output, "native.safetensors to write: our results").required();
  command.add_option("--report", o.report, "JSON document to write: how far each boundary is").required();
  command.add_option("--diffir", o.program, "the program to write, before its passes").required();
  command.add_option("--image-tokens", o.image_tokens, "latent tokens").required().expect_whole(0);
  command.add_option("--text-tokens", o.text_tokens, "prompt tokens").required().expect_whole(0);
  command.add_option("--batch-size", o.batch, "rows of the batch").show_default().expect_whole(1);
  command.add_option("--block", o.block, "number of the block, from 0").show_default().expect_whole(0);
  const cli::Option single =
      command.add_flag("--single", o.single, "gate a single-stream block (default: a double-stream one)");
  const cli::Option transformer =
      command
          .add_flag("--transformer", o.transformer, "gate the transformer with its first blocks of each kind")
          .excludes(single);
  command.add_option("--double-depth", o.double_depth, "of which so many double-stream")
      .needs(transformer)
      .expect_whole(0);
  command.add_option("--single-depth", o.single_depth, "and so many single-stream")
      .needs(transformer)
      .expect_whole(0);
  const cli::Option vae =
      command.add_flag("--vae", o.vae, "gate the picture decoder").excludes(single).excludes(transformer);
  command.add_option("--latent-height", o.latent_height, "rows of its latents").needs(vae).expect_whole(1);
  command.add_option("--latent-width", o.latent_width, "columns of its latents").needs(vae).expect_whole(1);
  command.add_option("--capture-boundary", o.captures,
                     "write this boundary too (a module path of diffusers); repeatable");
  command.add_option("--dtype", o.dtype, "arithmetic: f32, bf16").show_default();
  command.add_option("--passes", o.passes, "what the program goes through before it runs").show_default();
  command.add_option("--min-cos", o.min_cosine, "least cosine of each boundary");
  command.add_option(
      "--max-rel-l2", o.max_rel_l2,
      fmt::format(
          "most relative distance of each boundary (default {} in f32; in bf16 {} for a block, {} for the "
          "transformer and the decoder)",
          kMaxRelL2F32, kMaxRelL2BF16, kMaxRelL2BF16Whole));
  const cli::BackendOptions backend(command);
  const RefusedOptions refused(command, kMissing);
  command.add_examples(
      "  difflux2block --checkpoint flux.safetensors --fixture creator.safetensors --block 3 --image-tokens "
      "1024 "
      "--text-tokens 512 --output native.safetensors --report report.json --diffir block.difir\n"
      "  difflux2block --checkpoint ae.safetensors --fixture creator.safetensors --vae --latent-height 64 "
      "--latent-width 64 --image-tokens 0 --text-tokens 0 --output native.safetensors --report report.json "
      "--diffir vae.difir\n");
  return cli::run_tool(command, argc, argv, [&]() -> Status {
    DIF_TRY(refused.check());
    return Gate(o, backend).run();
  });
}

}  // namespace

const cli::Tool k_difflux2block = {"difflux2block", "Tensors", "hold a part of FLUX.2 against a fixture",
                                   run};

}  // namespace dif::tools
