/// difc, difinspect and difrun on the programs of the bundled model.
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "io/safetensors.h"
#include "ir/builder.h"
#include "ir/program_file.h"
#include "ops/add/add.op.h"
#include "ops/linear/linear.op.h"
#include "tests/tools/tool_test.h"

namespace dif::test {
namespace {

/// Exports a small chain once: 32 x 16 pixels, 2 steps, 24 tokens, without guidance.
class ProgramTools : public ToolTest {
 protected:
  static void SetUpTestSuite() {
    shared_ = new ScratchDir;
    const Finished finished = run_program("dif",
                                          {"generate", "x", "--emit-programs", "chain", "--size", "32x16",
                                           "--steps", "2", "--text-tokens", "24", "--guidance", "1"},
                                          shared_->path());
    ASSERT_EQ(finished.status, 0) << finished.err;
  }
  static void TearDownTestSuite() {
    delete shared_;
    shared_ = nullptr;
  }
  static std::string chain(const std::string& name) { return (shared_->path() / "chain" / name).string(); }

  /// Command line for the decoder, with latents of zeros; more options are added at the end.
  std::vector<std::string> decode(std::vector<std::string> more = {}) const {
    write("latents.diftensor", {DType::kF32, {1, 2, 32}});
    std::vector<std::string> arguments = {"--program",       chain("decode.difir"),
                                          "--weight-bundle", chain("decode.difbind"),
                                          "--input",         "latents=latents.diftensor"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }

  static ScratchDir* shared_;
};
ScratchDir* ProgramTools::shared_ = nullptr;

// --- difc -------------------------------------------------------------------------------------------------

TEST_F(ProgramTools, VerifyAndFingerprintAgreeWithTheSidecar) {
  EXPECT_NE(succeed("difc", {"verify", chain("step.difir")}).find("program step is verified"),
            std::string::npos);
  const std::string fingerprint = succeed("difc", {"fingerprint", chain("step.difir")});
  EXPECT_EQ(fingerprint.size(), 65U);
  const auto sidecar = nlohmann::json::parse(read_text(chain("step.difir.provenance.json")));
  EXPECT_EQ(sidecar.at("fingerprint").get<std::string>() + "\n", fingerprint);
}

TEST_F(ProgramTools, ADamagedProgramIsRefused) {
  std::string bytes = read_text(chain("step.difir"));
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  std::ofstream(path("damaged.difir"), std::ios::binary) << bytes;
  for (const char* command : {"verify", "fingerprint"})
    fail("difc", {command, "damaged.difir"}, 2, "damaged.difir");
  std::ofstream(path("text.difir")) << "program step\n";
  fail("difc", {"verify", "text.difir"}, 2, "text.difir");
  fail("difc", {"verify", "/nowhere.difir"}, 2, "/nowhere.difir: no such file");
}

TEST_F(ProgramTools, CompilerRefusesBadCommandLines) {
  fail("difc", {"verify"}, 2, "FILE");
  fail("difc", {"optimise", "x"}, 2, "");
  fail("difc", {"expose-tensors", chain("step.difir"), "out.difir"}, 2, "ID");
  fail("difc", {"expose-tensors", chain("step.difir"), "out.difir", "999999"}, 2, "no value %999999");
  fail("difc", {"expose-tensors", chain("step.difir"), "out.difir", "transformer.nothing"}, 2,
       "transformer.nothing");
  EXPECT_FALSE(std::filesystem::exists(path("out.difir")));
}

TEST_F(ProgramTools, PassesAreListedWithTheDefaultPipeline) {
  const std::string text = succeed("difc", {"passes"});
  EXPECT_NE(text.find("\ndefault: dead_code,"), std::string::npos) << text;
  const auto document = nlohmann::json::parse(succeed("difc", {"passes", "--json"}));
  EXPECT_EQ(document.at("kind"), "pass-list");
  for (const auto& pass : document.at("passes")) {
    EXPECT_NE(text.find(pass.at("name").get<std::string>()), std::string::npos);
    EXPECT_TRUE(pass.at("exact").is_boolean());
  }
}

TEST_F(ProgramTools, OptimizeWritesAProgramThatGivesTheSameOutput) {
  const std::string text =
      succeed("difc", {"optimize", chain("decode.difir"), "fast.difir", "--verify-each"});
  EXPECT_NE(text.find("hoist_step"), std::string::npos) << text;
  succeed("difc", {"verify", "fast.difir"});
  succeed("difweights", {"rebind-program", chain("decode.difbind"), "fast.difir", "fast.difbind"});
  succeed("difrun", decode({"--backend", "reference", "--output", "image=before.diftensor"}));
  succeed("difrun",
          {"--program", "fast.difir", "--weight-bundle", "fast.difbind", "--input",
           "latents=latents.diftensor", "--backend", "reference", "--output", "image=after.diftensor"});
  EXPECT_EQ(read_text(path("before.diftensor")), read_text(path("after.diftensor")));
}

TEST_F(ProgramTools, OptimizeSaysWhatItDid) {
  const std::string why = succeed("difc", {"optimize", chain("step.difir"), "fast.difir", "--why"});
  EXPECT_NE(why.find("  linear in transformer.norm_out.linear hoisted: depends on the step alone"),
            std::string::npos)
      << why;
  const auto document =
      nlohmann::json::parse(succeed("difc", {"optimize", chain("step.difir"), "fast.difir", "--json"}));
  EXPECT_EQ(document.at("kind"), "passes");
  const auto& program = document.at("program");
  EXPECT_EQ(program.at("fingerprint_before").get<std::string>() + "\n",
            succeed("difc", {"fingerprint", chain("step.difir")}));
  EXPECT_EQ(program.at("fingerprint_after").get<std::string>() + "\n",
            succeed("difc", {"fingerprint", "fast.difir"}));
  EXPECT_LT(program.at("flops_after").get<double>(), program.at("flops_before").get<double>());
  std::size_t decisions = 0;
  for (const auto& pass : document.at("passes")) decisions += pass.at("decisions").size();
  EXPECT_GT(decisions, 20U);
}

TEST_F(ProgramTools, OptimizePrintsProgramsOnRequest) {
  const auto optimize = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"optimize", chain("step.difir"), "fast.difir", "--pass", "layout,hoist_step"});
    return succeed("difc", more);
  };
  EXPECT_EQ(optimize({}).find("program step"), std::string::npos);
  const std::string changed = optimize({"--print-if-changed"});
  EXPECT_EQ(changed.find("# after layout"), std::string::npos) << "it changes nothing here";
  EXPECT_NE(changed.find("# after hoist_step\nprogram step"), std::string::npos);
  EXPECT_NE(optimize({"--print-after", "layout"}).find("# after layout\nprogram step"), std::string::npos);
}

TEST_F(ProgramTools, OptimizeRefusesBadCommandLines) {
  const auto refuse = [&](std::vector<std::string> more, const std::string& part) {
    more.insert(more.begin(), {"optimize", chain("step.difir"), "out.difir"});
    fail("difc", more, 2, part);
    EXPECT_FALSE(std::filesystem::exists(path("out.difir")));
  };
  refuse({"--pass", "inline"}, "there is no pass \"inline\"");
  refuse({"--pass", ""}, "there is no pass");
  refuse({"--print-after", "inline"}, "there is no pass \"inline\"");
  refuse({"--json", "--print-if-changed"}, "--json");
  fail("difc", {"optimize", chain("step.difir"), "/nowhere/out.difir"}, 2, "/nowhere");
}

TEST_F(ProgramTools, ExposedTensorsAreOutputsOfTheWrittenProgram) {
  const std::string printed =
      succeed("difc", {"expose-tensors", chain("step.difir"), "probe.difir", "transformer.x_embedder", "%0"});
  EXPECT_EQ(printed.rfind("transformer.x_embedder = %", 0), 0U) << printed;
  EXPECT_NE(printed.find("value-0 = %0 : f32[1, 2, 32]"), std::string::npos) << printed;
  const std::string listing = succeed("difinspect", {"probe.difir"});
  EXPECT_NE(listing.find("  transformer.x_embedder = %"), std::string::npos);
  EXPECT_NE(listing.find("# transformer.transformer_blocks.0"), std::string::npos) << "provenance is kept";
}

TEST_F(ProgramTools, AnExposedProgramRunsOnceItsBundleIsSealedAgain) {
  const std::string boundary = "vae.decoder.conv_in";
  succeed("difc", {"expose-tensors", chain("decode.difir"), "probe.difir", boundary});
  write("latents.diftensor", {DType::kF32, {1, 2, 32}});
  const auto probe = [&](const std::string& bundle) {
    return std::vector<std::string>{"--program",       "probe.difir",
                                    "--weight-bundle", bundle,
                                    "--input",         "latents=latents.diftensor",
                                    "--output",        boundary + "=conv_in.diftensor"};
  };
  fail("difrun", probe(chain("decode.difbind")), 2, "sealed for the program with fingerprint");
  succeed("difweights", {"rebind-program", chain("decode.difbind"), "probe.difir", "probe.difbind"});
  succeed("difweights", {"verify-bundle", "probe.difbind", "probe.difir"});
  succeed("difrun", probe("probe.difbind"));
  EXPECT_EQ(io::read_tensor_file(path("conv_in.diftensor"))->shape.rank(), 4);
  EXPECT_NE(succeed("difweights", {"inspect-bundle", "probe.difbind"}).find("decoder.conv_in.weight bf16["),
            std::string::npos);
  fail("difweights", {"verify-bundle", "probe.difbind", chain("decode.difir")}, 2, "sealed for the program");
  fail("difweights", {"rebind-program", chain("decode.difbind"), chain("step.difir"), "x.difbind"}, 2,
       "constant schedule.model_time is missing");
}

// --- difinspect -------------------------------------------------------------------------------------------

TEST_F(ProgramTools, TheListingLetsAReaderFollowABlock) {
  const std::string text = succeed("difinspect", {chain("step.difir")});
  for (const char* part : {"program step\n", "inputs\n", "constants\n", "operations\n", "outputs\n",
                           "# transformer.transformer_blocks.0.attn", "= attention(", "FLOP", "# arena ",
                           "result of transformer.transformer_blocks.0"})
    EXPECT_NE(text.find(part), std::string::npos) << part;
  EXPECT_EQ(text.find("arena 0 +"), std::string::npos);
  EXPECT_NE(succeed("difinspect", {chain("step.difir"), "--assignments"}).find("arena 0 + "),
            std::string::npos);
}

TEST_F(ProgramTools, TheDocumentHoldsWhatTheListingShows) {
  const auto document =
      nlohmann::json::parse(succeed("difinspect", {chain("step.difir"), "--json", "--assignments"}));
  EXPECT_EQ(document.at("kind"), "program");
  EXPECT_EQ(document.at("inputs").at(0).at("name"), "latents");
  const auto& operations = document.at("operations");
  EXPECT_EQ(document.at("totals").at("operations"), operations.size());
  double flops = 0;
  for (const auto& operation : operations) flops += operation.at("flops").get<double>();
  EXPECT_DOUBLE_EQ(document.at("totals").at("flops").get<double>(), flops);
  EXPECT_GT(document.at("plan").at("arena_bytes").get<double>(), 0);
  EXPECT_EQ(document.at("assignments").size(),
            document.at("assignments").back().at("value").get<std::size_t>() + 1);
}

TEST_F(ProgramTools, SourceJoinsModuleAndWeightIdentityAndSaysWhatIsAbsent) {
  const auto document = nlohmann::json::parse(
      succeed("difinspect", {chain("step.difir"), "--source", "--bundle", chain("step.difbind"), "--json"}));
  EXPECT_EQ(document.at("kind"), "program-source");
  int linears = 0;
  for (const auto& operation : document.at("operations")) {
    if (operation.at("text").get<std::string>().find(" = linear(") == std::string::npos) continue;
    ++linears;
    EXPECT_TRUE(operation.at("module").is_string()) << operation;
    ASSERT_EQ(operation.at("weights").size(), 1U) << operation;
    EXPECT_EQ(operation.at("weights").at(0).at("identity").at("shard_sha256").get<std::string>().size(), 64U);
    EXPECT_TRUE(operation.at("implementation").is_null());
  }
  EXPECT_GT(linears, 20);

  const std::string alone = succeed("difinspect", {chain("step.difir"), "--source", "--op", "3"});
  EXPECT_NE(alone.find("operation 3 "), std::string::npos) << alone;
  EXPECT_EQ(alone.find("operation 4 "), std::string::npos) << alone;
  EXPECT_NE(alone.find("implementation  absent"), std::string::npos) << alone;
}

TEST_F(ProgramTools, SourceWithoutASidecarIsAllAbsent) {
  std::filesystem::copy(chain("step.difir"), path("alone.difir"));
  const std::string text = succeed("difinspect", {"alone.difir", "--source"});
  EXPECT_NE(text.find("made by absent"), std::string::npos);
  EXPECT_EQ(text.find("module          transformer"), std::string::npos);
  const std::string joined =
      succeed("difinspect", {"alone.difir", "--source", "--provenance", chain("step.difir.provenance.json")});
  EXPECT_NE(joined.find("module          transformer"), std::string::npos);
}

TEST_F(ProgramTools, InspectRefusesWhatDoesNotBelongTogether) {
  fail("difinspect", {chain("step.difir"), "--op", "3"}, 2, "belong to --source");
  fail("difinspect", {chain("step.difir"), "--source", "--assignments"}, 2, "--assignments");
  fail("difinspect", {chain("step.difir"), "--source", "--op", "99999"}, 2, "has operations 0 to ");
  fail("difinspect", {chain("step.difir"), "--source", "--op", "-1"}, 2, "--op");
  fail("difinspect", {chain("step.difir"), "--source", "--bundle", chain("decode.difbind")}, 2,
       "another program");
  fail("difinspect", {chain("step.difir"), "--source", "--provenance", chain("decode.difir.provenance.json")},
       2, "fingerprint");
  fail("difinspect", {chain("step.difbind")}, 2, "step.difbind");
}

// --- difrun -----------------------------------------------------------------------------------------------

TEST_F(ProgramTools, RunsTheExportedChainToAPicture) {
  std::vector<std::int64_t> ids(24), mask(24);
  for (int i = 0; i < 10; ++i) ids[i] = 600 + i, mask[i] = 1;
  write("ids.diftensor", io::HostTensor::from<std::int64_t>(DType::kI64, {1, 24}, ids));
  write("mask.diftensor", io::HostTensor::from<std::int64_t>(DType::kI64, {1, 24}, mask));
  succeed("difrun",
          {"--program", chain("encode.difir"), "--weight-bundle", chain("encode.difbind"), "--verify-shards",
           "--input", "input_ids=ids.diftensor", "--input", "attention_mask=mask.diftensor", "--output",
           "prompt_embeds=embeds.safetensors::prompt_embeds"});
  write("noise.diftensor", {DType::kF32, {1, 2, 32}});
  std::string latents = "noise.diftensor";
  for (const std::string step : {"0", "1"}) {
    const std::vector<std::int32_t> number = {step == "0" ? 0 : 1};
    write("step.diftensor", io::HostTensor::from<std::int32_t>(DType::kI32, {1}, number));
    succeed("difrun",
            {"--program", chain("step.difir"), "--weight-bundle", chain("step.difbind"), "--input",
             "latents=" + latents, "--input", "prompt_embeds=embeds.safetensors::prompt_embeds", "--input",
             "step=step.diftensor", "--output", "latents=latents" + step + ".diftensor"});
    latents = "latents" + step + ".diftensor";
  }
  const std::string text =
      succeed("difrun", {"--program", chain("decode.difir"), "--weight-bundle", chain("decode.difbind"),
                         "--input", "0=" + latents, "--output", "image=image.diftensor"});
  EXPECT_NE(text.find("image f32[1, 3, 16, 32] -> image.diftensor"), std::string::npos) << text;
  succeed("difimage", {"image.diftensor", "."});
  EXPECT_TRUE(std::filesystem::exists(path("frame-00000.png")));
}

TEST_F(ProgramTools, RunReportsTimesKernelsAndReasons) {
  const std::string text = succeed("difrun", decode({"--warmups", "1", "--iterations", "2", "--trace-ops",
                                                     "--why", "--backend", "reference"}));
  EXPECT_NE(text.find("median of 2"), std::string::npos) << text;
  EXPECT_NE(text.find("conv2d"), std::string::npos) << text;
  EXPECT_NE(text.find("vae.decoder.conv_in"), std::string::npos) << "modules stand beside the times";
  EXPECT_NE(text.find(", folded when prepared"), std::string::npos) << text;

  const auto document = nlohmann::json::parse(
      succeed("difrun", decode({"--iterations", "3", "--trace-ops", "--json", "--backend", "reference"})));
  EXPECT_EQ(document.at("kind"), "runtime-trace");
  EXPECT_EQ(document.at("execution").at("preparation_reported"), true);
  EXPECT_EQ(document.at("execution").at("run_seconds").size(), 3U);
  EXPECT_GT(document.at("operations").size(), 10U);
  EXPECT_EQ(document.at("backend").at("name"), "reference");
}

TEST_F(ProgramTools, RunSaysWhichBindingIsWrong) {
  fail("difrun", {"--program", chain("decode.difir")}, 2, "needs --input ID=FILE for latents f32[1, 2, 32]");
  fail("difrun", decode({"--input", "0=latents.diftensor"}), 2, "input latents is bound twice");
  fail("difrun", decode({"--input", "noise=latents.diftensor"}), 2,
       "has no input noise; its inputs: latents (%0)");
  fail("difrun", decode({"--output", "video=v.diftensor"}), 2, "has no output video; its outputs: image");
  fail("difrun", decode({"--output", "v.diftensor"}), 2, "expected ID=FILE");
  fail("difrun", decode({"--output", "image=a.diftensor", "--output", "image=a.diftensor"}), 2,
       "two tensors");
  fail("difrun", decode({"--output", "image=/nowhere/a.diftensor"}), 2, "/nowhere");
  write("wrong.diftensor", {DType::kF32, {1, 3, 32}});
  fail("difrun",
       {"--program", chain("decode.difir"), "--weight-bundle", chain("decode.difbind"), "--input",
        "latents=wrong.diftensor"},
       2, "wrong.diftensor is f32[1, 3, 32], the program wants f32[1, 2, 32]");
  fail("difrun", {"--program", chain("decode.difir"), "--input", "latents=wrong.diftensor"}, 2,
       "wrong.diftensor");
  write("latents.diftensor", {DType::kF32, {1, 2, 32}});
  fail("difrun", {"--program", chain("decode.difir"), "--input", "latents=latents.diftensor"}, 2,
       "--weight-bundle");
  fail("difrun",
       {"--program", chain("decode.difir"), "--weight-bundle", chain("step.difbind"), "--input",
        "latents=latents.diftensor"},
       2, "sealed for the program with fingerprint");
}

TEST_F(ProgramTools, RunRefusesFeaturesThatDoNotExist) {
  const auto refuse = [&](const Arguments& more, const std::string& feature) {
    fail("difrun", decode(Arguments{"--output", "image=a.diftensor"} + more), 2,
         more[0] + ": this version has no " + feature);
  };
  refuse({"--cutlass-linear", "3"}, "kernels of CUTLASS");
  refuse({"--cutlass-linear"}, "kernels of CUTLASS");
  refuse({"--cutlass-linear", "--iterations", "2"}, "kernels of CUTLASS");
  refuse({"--h3-w8a8-layer", "1", "--h3-w8a8-layer", "2"}, "W8A8 linears");
  refuse({"--h3-int8-cublaslt"}, "INT8 projections");
  refuse({"--h3-groupwise-cache", "a.safetensors"}, "INT8 weights");
  refuse({"--h3-modulation-steps", "4"}, "precomputed modulation");
  refuse({"--h3-ck-attention-dso", "a.so"}, "INT8 attention");
  EXPECT_FALSE(files().contains("a.diftensor"));
}

TEST_F(ProgramTools, RunLetsALinearTakeTheBiasThatIsAddedToIt) {
  ir::Builder b("p");
  const ir::Value x = b.input("x", {DType::kBF16, {1, 2}}), w = b.input("w", {DType::kBF16, {1, 2}}),
                  bias = b.input("b", {DType::kBF16, {1}});
  b.output("y", ops::add(b, ops::linear(b, x, w), bias));
  const auto program = b.finish();
  ASSERT_TRUE(program) << program.error().message;
  ASSERT_TRUE(ir::write_program(path("p.difir"), *program));
  // 256 + 1 is 256 in bf16, and so is that plus 1; without the rounding between them 258.
  const auto write_bf16 = [&](const std::string& name, const Shape& shape, std::vector<float> values) {
    const auto tensor = io::convert(io::HostTensor::f32(shape, values), DType::kBF16);
    ASSERT_TRUE(tensor) << tensor.error().message;
    write(name, *tensor);
  };
  write_bf16("x.diftensor", {1, 2}, {256, 1});
  write_bf16("w.diftensor", {1, 2}, {1, 1});
  write_bf16("b.diftensor", {1}, {1});
  const Arguments arguments = {"--program", "p.difir",       "--input", "x=x.diftensor",
                               "--input",   "w=w.diftensor", "--input", "b=b.diftensor"};
  const auto result = [&](const Arguments& more) {
    const auto document = nlohmann::json::parse(
        succeed("difrun", arguments + more + Arguments{"--output", "y=y.diftensor", "--json"}));
    const auto y = io::read_tensor_file(path("y.diftensor"));
    EXPECT_TRUE(y) << y.error().message;
    return std::pair(document.at("program"), y->to_f32().front());
  };
  for (const char* backend : {"reference", "cpu"}) {
    const auto [plain, rounded_twice] = result({"--backend", backend});
    const auto [absorbed, rounded_once] = result({"--backend", backend, "--absorb-linear-bias", "0"});
    EXPECT_EQ(rounded_twice, 256) << backend;
    EXPECT_EQ(rounded_once, 258) << backend;
    EXPECT_FALSE(plain.contains("absorbed_biases"));
    EXPECT_EQ(absorbed.at("absorbed_biases"),
              nlohmann::json::parse(R"([{"linear": 0, "add": 1, "bias": "b"}])"));
    EXPECT_NE(absorbed.at("fingerprint"), plain.at("fingerprint"));
    EXPECT_EQ(absorbed.at("operations"), plain.at("operations")) << "all keep their numbers";
  }
  EXPECT_NE(succeed("difrun", arguments + Arguments{"--absorb-linear-bias", "0"})
                .find("operation 0 takes b as its bias, which operation 1 added"),
            std::string::npos);
  const auto refuse = [&](const Arguments& more, const std::string& sentence) {
    fail("difrun", arguments + more, 2, sentence);
  };
  refuse({"--absorb-linear-bias", "1"},
         "operation 1 is add, not linear: it takes no bias (--absorb-linear-bias 1)");
  refuse({"--absorb-linear-bias", "2"}, "program p has 2 operations, none with the number 2");
  refuse({"--absorb-linear-bias", "0", "--absorb-linear-bias", "0"}, "operation 0 has a bias already");
  refuse({"--absorb-linear-bias", "first"}, "--absorb-linear-bias");
}

TEST_F(ProgramTools, RunRefusesChoicesThatTheProgramDoesNotHave) {
  const auto refuse = [&](const Arguments& more, const std::string& sentence) {
    fail("difrun", decode(Arguments{"--backend", "reference", "--output", "image=a.diftensor"} + more), 2,
         sentence);
  };
  refuse({"--select-linear-algorithm", "3"}, "expected OPERATION:RANK, such as 12:0");
  refuse({"--select-linear-algorithm", "3:1:2"}, "expected OPERATION:RANK");
  refuse({"--select-linear-algorithm", "99999:0"}, "has no operation 99999; the last one is");
  refuse({"--tune-linear", "99999"}, "has no operation 99999");
  refuse({"--fuse-linear-swiglu", "99999"}, "has no operation 99999");
  refuse({"--tune-linear", "1", "--select-linear-algorithm", "1:0"}, "operation 1 is chosen for twice");
  refuse({"--linear-tune-warmups", "1"}, "--tune-linear");
  refuse({"--resident-streamed-constant", "latents"}, "is no constant");
  refuse({"--resident-streamed-constant", "nothing"}, "has no value");
  refuse({"--resident-streamed-constant", ""},
         "error: --resident-streamed-constant: expected a name, found \"\"");
  refuse({"--persist-linear-heuristics", "--no-cache"}, "there is no cache folder");
  refuse({"--cudnn-attention-heuristic", "c"}, "--cudnn-attention-heuristic");
  refuse({"--pinned-io", "--streamed-pinned-budget-mib", "128"}, "of inputs and outputs beside 128 MiB");
  EXPECT_FALSE(files().contains("a.diftensor"));
}

TEST_F(ProgramTools, RunRefusesTwoOutputsUnderOneName) {
  const auto refuse = [&](const Arguments& more, const std::string& part) {
    fail("difrun", decode(Arguments{"--backend", "reference"} + more), 2, part);
  };
  refuse({"--output", "image=a", "--report", "./a"},
         "--report and --output image would both be written to a");
  refuse({"--output", "image=a.safetensors::x", "--output", "image=a.safetensors::x"},
         "two tensors would be written to a.safetensors::x");
  refuse({"--output", "image=a.safetensors::x", "--output", "image=a.safetensors"},
         "would both be written to a.safetensors");
  succeed("difrun", decode({"--backend", "reference", "--output", "image=a.safetensors::x", "--output",
                            "image=a.safetensors::y"}));
}

TEST_F(ProgramTools, RunSaysWhichOptionsHaveNoMeaningOnABackend) {
  const Finished finished =
      run("difrun", decode({"--backend", "reference", "--expand-linear-algorithms",
                            "--persist-linear-heuristics", "--resident-order", "first", "--prefetch-distance",
                            "0", "--streamed-release-pages", "--cache-dir", path("cache")}));
  EXPECT_EQ(finished.status, 0) << finished.err;
  for (const char* part : {"measures no algorithms: --expand-linear-algorithms has no effect",
                           "measures no algorithms: --persist-linear-heuristics has no effect",
                           "does not stream weights: --resident-order has no effect",
                           "does not stream weights: --prefetch-distance has no effect",
                           "does not stream weights: --streamed-release-pages has no effect"})
    EXPECT_NE(finished.err.find(part), std::string::npos) << part << "\n" << finished.err;
  EXPECT_EQ(run("difrun", decode({"--backend", "reference"})).err, "");
}

TEST_F(ProgramTools, RunRefusesAnAlgorithmWhereTheKernelHasNone) {
  const auto document =
      nlohmann::json::parse(succeed("difrun", decode({"--json", "--backend", "reference"})));
  for (const auto& operation : document.at("details").at("operations")) {
    const bool is_linear = operation.at("name") == "linear" && !operation.contains("folded");
    if (!is_linear && operation.at("name") != "conv2d") continue;
    const std::string number = operation.at("operation").dump();
    fail("difrun", decode({"--backend", "reference", "--select-linear-algorithm", number + ":0"}), 2,
         is_linear ? "kernel reference has no algorithms to choose from" : "is conv2d, not linear");
    if (!is_linear) continue;
    fail("difrun", decode({"--backend", "reference", "--fuse-linear-swiglu", number}), 2,
         "this backend has no kernel of a product with SwiGLU");
    fail("difrun", decode({"--backend", "null", "--tune-linear", number}), 2,
         "this backend computes nothing, there are no algorithms to choose from");
  }
}

TEST_F(ProgramTools, RunUsesInputsWhereTheyAreMapped) {
  succeed("difrun", decode({"--backend", "reference", "--output", "image=read.diftensor"}));
  const auto document = nlohmann::json::parse(
      succeed("difrun", decode({"--backend", "reference", "--map-inputs", "--profile-pipeline", "--json",
                                "--output", "image=mapped.diftensor"})));
  EXPECT_EQ(read_text(path("read.diftensor")), read_text(path("mapped.diftensor")));
  EXPECT_EQ(document.at("pipeline").at("mapped_input_bytes"), 2 * 32 * 4);
  std::vector<std::string> phases;
  for (const auto& entry : document.at("pipeline").at("phases")) phases.push_back(entry.at("phase"));
  EXPECT_EQ(phases,
            (std::vector<std::string>{"inputs", "constants", "device", "prepare", "runs", "outputs"}));
}

TEST_F(ProgramTools, RunAppendsItsDocumentToTheTraceFile) {
  for (const std::size_t runs : {1U, 2U}) {
    ASSERT_EQ(
        run("difrun", decode({"--backend", "reference"}), {{"DIF_TRACE_FILE", path("trace.jsonl")}}).status,
        0);
    std::ifstream lines(path("trace.jsonl"));
    std::size_t found = 0;
    for (std::string line; std::getline(lines, line); ++found)
      EXPECT_EQ(nlohmann::json::parse(line).at("kind"), "runtime-trace");
    EXPECT_EQ(found, runs);
  }
  fail("difrun", decode({"--backend", "reference", "--output", "image=a.diftensor"}), 2,
       "/nowhere/t (DIF_TRACE_FILE) cannot be written: /nowhere: No such file or directory; let the variable",
       {{"DIF_TRACE_FILE", "/nowhere/t"}});
  fail("difrun", decode({"--backend", "reference"}), 2, "it is a folder", {{"DIF_TRACE_FILE", path("")}});
  EXPECT_FALSE(files().contains("a.diftensor")) << "found out before the work";
}

TEST_F(ProgramTools, RunRepeatsSessionsAndCountsWhatTheLastRunDid) {
  const auto document = nlohmann::json::parse(succeed(
      "difrun", decode({"--backend", "reference", "--session-runs", "3", "--iterations", "2", "--json"})));
  EXPECT_EQ(document.at("execution").at("sessions").size(), 3U);
  EXPECT_EQ(document.at("execution").at("run_seconds").size(), 6U);
  for (const char* count :
       {"graph_launches", "kernel_launches", "host_stream_synchronizes", "device_mem_allocs", "copies"})
    EXPECT_TRUE(document.at("run_launch_telemetry").at(count).is_number_unsigned()) << count;
  const std::string text =
      succeed("difrun", decode({"--backend", "reference", "--session-runs", "2", "--profile-pipeline"}));
  EXPECT_NE(text.find("session 2: "), std::string::npos) << text;
  EXPECT_NE(text.find(" s  prepare\n"), std::string::npos) << text;
}

TEST_F(ProgramTools, RunRefusesBadNumbersAndBackends) {
  fail("difrun", decode({"--iterations", "0"}), 2, "--iterations 0: expected 1 to");
  fail("difrun", decode({"--warmups", "-1"}), 2, "--warmups -1: expected 0 to");
  fail("difrun", decode({"--iterations", "many"}), 2, "--iterations");
  fail("difrun", decode({"--backend", "abacus"}), 3, "there is no backend \"abacus\"");
  fail("difrun", decode({"--backend-plugin", (bin_dir() / "examples/libdif_pointwise.so").string()}), 3,
       "backend pointwise: ");
  fail("difrun", {"--program", "/nowhere.difir"}, 2, "/nowhere.difir");
}

TEST_F(ProgramTools, ValuesThatAreNotFiniteAreWrittenAndNamed) {
  std::vector<float> values(64, std::numeric_limits<float>::quiet_NaN());
  const std::vector<std::string> arguments =
      decode({"--output", "image=image.diftensor", "--backend", "reference"});
  write("latents.diftensor", io::HostTensor::f32({1, 2, 32}, values));
  const Finished finished = run("difrun", arguments);
  EXPECT_EQ(finished.status, 1) << finished.err;
  EXPECT_NE(finished.err.find("is the first whose result holds NaN"), std::string::npos) << finished.err;
  EXPECT_NE(finished.err.find("module "), std::string::npos) << finished.err;
  EXPECT_TRUE(std::filesystem::exists(path("image.diftensor")));
  std::vector<std::string> allowed = arguments;
  allowed.push_back("--allow-nonfinite");
  succeed("difrun", allowed);
}

TEST_F(ProgramTools, ShardsThatChangedAreFoundOnRequest) {
  // A copy of the model, exported, then changed in its last byte.
  std::filesystem::copy(model_dir(), path("model"), std::filesystem::copy_options::recursive);
  succeed("dif", {"generate", "x", "--model", "model", "--emit-programs", "own", "--size", "16x16", "--steps",
                  "1", "--text-tokens", "24"});
  const std::string file = path("model/vae/diffusion_pytorch_model.safetensors");
  std::filesystem::permissions(file, std::filesystem::perms::owner_write, std::filesystem::perm_options::add);
  std::string bytes = read_text(file);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  std::ofstream(file, std::ios::binary) << bytes;
  write("l.diftensor", {DType::kF32, {1, 1, 32}});
  const std::vector<std::string> arguments = {"--program",       "own/decode.difir",
                                              "--weight-bundle", "own/decode.difbind",
                                              "--input",         "latents=l.diftensor"};
  succeed("difrun", arguments);
  std::vector<std::string> verified = arguments;
  verified.push_back("--verify-shards");
  fail("difrun", verified, 2, "diffusion_pytorch_model.safetensors");
}

}  // namespace
}  // namespace dif::test
