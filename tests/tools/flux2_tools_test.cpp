/// difflux2sample, difflux2block and difcondition on the bundled model, small and with the reference backend.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "frontends/model.h"
#include "io/safetensors.h"
#include "pipelines/chain_builder.h"
#include "tests/end_to_end/chain_runner.h"
#include "tests/support/paths.h"
#include "tests/tools/tool_test.h"

namespace dif::test {
namespace {

class Flux2Tools : public ToolTest {
 protected:
  static std::string model(const std::string& part = "") { return (model_dir() / part).string(); }

  io::HostTensor tensor(const std::string& file, const std::string& name) const {
    const auto found = io::read_tensor_operand(path(file) + "::" + name);
    EXPECT_TRUE(found) << found.error().message;
    return found ? *found : io::HostTensor();
  }
};

class Flux2Sample : public Flux2Tools {
 protected:
  Arguments options(const std::string& name, const Arguments& more) const {
    return Arguments{"--model-dir",      model(),
                     "--vae-checkpoint", model("vae/diffusion_pytorch_model.safetensors"),
                     "--prompt",         "a red apple",
                     "--output",         name + ".png",
                     "--report",         name + ".json",
                     "--width",          "16",
                     "--height",         "16",
                     "--text-tokens",    "32",
                     "--backend",        "reference",
                     "--quiet"} +
           more;
  }
  void sample(const std::string& name, const Arguments& more) const {
    EXPECT_EQ(succeed("difflux2sample", options(name, more)), name + ".png\n");
  }
  void refuse(const Arguments& more, const std::string& part) const {
    fail("difflux2sample", options("refused", more), 2, part);
  }
};

TEST_F(Flux2Sample, RefusesChoicesThatTheDenoiserDoesNotHave) {
  refuse({"--tune-linear-operation", "99999"}, "program step has no operation 99999; the last one is");
  refuse({"--select-linear-algorithm", "99999:0"}, "program step has no operation 99999");
  refuse({"--select-linear-algorithm", "1"}, "expected OPERATION:RANK");
  refuse({"--linear-tuning-warmups", "1"}, "--tune-linear-operation");
  refuse({"--persist-linear-heuristics", "--no-cache"}, "there is no cache folder");
}

TEST_F(Flux2Sample, DrawsWhatGenerateDraws) {
  sample("a", {"--steps", "2"});
  succeed("dif", {"generate", "a red apple", "-o", "b.png", "--size", "16x16", "--steps", "2",
                  "--text-tokens", "32", "--backend", "reference", "--quiet", "--no-metadata"});
  EXPECT_EQ(read_text(path("a.png")), read_text(path("b.png")));
  const auto report = nlohmann::json::parse(read_text(path("a.json")));
  EXPECT_EQ(report.at("kind"), "generation");
  EXPECT_EQ(report.at("request").at("steps"), 2);
  EXPECT_EQ(report.at("pictures").at(0).at("path"), "a.png");
}

TEST_F(Flux2Sample, StateHoldsEveryBoundaryOfTheRun) {
  sample("a", {"--steps", "3", "--capture-every", "1", "--state-output", "state.safetensors"});
  const io::HostTensor steps = tensor("state.safetensors", "latents_steps");
  const io::HostTensor last = tensor("state.safetensors", "latents");
  EXPECT_EQ(steps.shape, (Shape{3, 1, last.shape.dim(2)}));
  EXPECT_EQ(std::vector(steps.data.end() - std::ssize(last.data), steps.data.end()), last.data);
  EXPECT_EQ(tensor("state.safetensors", "prompt_embeds").shape.dim(1), 32);
  EXPECT_NE(tensor("state.safetensors", "negative_prompt_embeds").data,
            tensor("state.safetensors", "prompt_embeds").data);
  EXPECT_EQ(tensor("state.safetensors", "initial_latents").shape, last.shape);
}

TEST_F(Flux2Sample, ARunGoesOnFromItsState) {
  sample("whole", {"--steps", "3"});
  sample("first", {"--steps", "3", "--stop-after", "1", "--state-output", "one.safetensors"});
  sample("rest", {"--steps", "3", "--start-step", "1", "--initial-latent", "one.safetensors",
                  "--initial-latent-tensor", "latents", "--positive-conditioning", "one.safetensors",
                  "--negative-conditioning", "one.safetensors"});
  EXPECT_NE(read_text(path("first.png")), read_text(path("whole.png")));
  EXPECT_EQ(read_text(path("rest.png")), read_text(path("whole.png")));
}

TEST_F(Flux2Sample, RangesAndInputsThatDoNotFitAreRefused) {
  refuse({"--steps", "3", "--stop-after", "4"}, "expected a part of the 3 steps");
  refuse({"--steps", "3", "--start-step", "2", "--stop-after", "2", "--initial-latent", "x"}, "at least one");
  refuse({"--steps", "3", "--start-step", "1"}, "--initial-latent");
  refuse({"--initial-latent", model("vae/diffusion_pytorch_model.safetensors")}, "initial_latents");
  refuse({"--positive-conditioning", "missing.safetensors"}, "missing.safetensors");
}

TEST_F(Flux2Sample, FeaturesThatDoNotExistAreRefusedAndNotIgnored) {
  refuse({"--w8a8-convrot"}, "--w8a8-convrot: this version has no W8A8 linears");
  refuse({"--fp8-double-block", "3"}, "this version has no FP8 linears");
  refuse({"--int8-weight-only-group-size", "32"}, "this version has no INT8 weights");
  refuse({"--transformer-attention", "cudnn"}, "choice of the attention kernel");
  refuse({"--state-output", "refused.png"}, "would both be written to refused.png");
  EXPECT_TRUE(files().empty());
}

class Condition : public Flux2Tools {
 protected:
  void make_program(const std::string& name) const {
    EXPECT_EQ(succeed("difcondition", {"program", "--flux2", "--checkpoint", model("text_encoder"),
                                       "--sequence", "512", "--output", name}),
              name + "\n");
  }
};

TEST_F(Condition, EncodesWhatGenerateEncodes) {
  make_program("encode.difir");
  succeed("difcondition", {"bundle", "--flux2", "--checkpoint", model("text_encoder"), "--program",
                           "encode.difir", "--output", "encode.difbind"});
  succeed("diftokenize", {"--processor", model("tokenizer"), "--prompt", "a red apple", "--flux2-inputs-out",
                          "inputs.safetensors", "--quiet"});
  succeed("difcondition",
          {"run", "--flux2", "--program", "encode.difir", "--bundle", "encode.difbind", "--inputs",
           "inputs.safetensors", "--output", "embeds.safetensors", "--report", "report.json"});
  EXPECT_EQ(nlohmann::json::parse(read_text(path("report.json"))).at("kind"), "conditioning");
  const Arguments drawn = {"--model-dir",
                           model(),
                           "--vae-checkpoint",
                           model("vae/diffusion_pytorch_model.safetensors"),
                           "--prompt",
                           "a red apple",
                           "--width",
                           "16",
                           "--height",
                           "16",
                           "--steps",
                           "1",
                           "--quiet",
                           "--report",
                           "r.json"};
  succeed("difflux2sample", drawn + Arguments{"--output", "a.png"});
  succeed("difflux2sample",
          drawn + Arguments{"--output", "b.png", "--positive-conditioning", "embeds.safetensors",
                            "--negative-conditioning", "embeds.safetensors"});
  EXPECT_EQ(read_text(path("a.png")), read_text(path("b.png")));
}

TEST_F(Condition, WhatDoesNotFitIsRefused) {
  const std::string encoder = model("text_encoder");
  fail("difcondition", {"program", "--checkpoint", encoder, "--sequence", "8", "--output", "a.difir"}, 2,
       "--flux2");
  fail("difcondition",
       {"program", "--krea2", "--checkpoint", encoder, "--sequence", "8", "--output", "a.difir"}, 2,
       "no conditioner of Krea 2");
  fail("difcondition",
       {"program", "--flux2", "--checkpoint", encoder, "--sequence", "8", "--output", "a.difir", "--layers",
        "12"},
       2, "after layer 27");
  fail("difcondition",
       {"program", "--flux2", "--checkpoint", encoder, "--sequence", "8", "--output", "a.difir", "--dtype",
        "f16"},
       2, "--dtype f16");
  fail("difcondition",
       {"program", "--flux2", "--checkpoint", "nowhere", "--sequence", "8", "--output", "a.difir"}, 2,
       "nowhere");
  EXPECT_TRUE(files().empty());
}

/// Fixtures are made from the whole step and decode programs, run by the reference backend.
class Flux2Block : public Flux2Tools {
 protected:
  using Tensors = std::map<std::string, io::HostTensor>;

  void SetUp() override {
    model_ = value_of(frontends::open_model(model_dir()));
    GenerationSettings settings;
    settings.width = settings.height = 32;
    settings.steps = 1;
    settings.text_tokens = 8;
    chain_ = value_of(build_chain(*model_, settings));
    auto library = value_of(runtime::BackendLibrary::load_by_name("reference"));
    context_ = value_of(runtime::Context::create(std::move(library), {}));
  }

  static io::HostTensor noise(const ir::TensorType& type) {
    io::HostTensor tensor(type.dtype, type.shape);
    std::uint32_t state = 1;
    for (float& value : tensor.as<float>())
      value = static_cast<float>(static_cast<std::int32_t>(state = state * 1664525 + 1013904223)) * 0x1p-31f;
    return tensor;
  }

  /// Inputs and every boundary of a program.
  Tensors run_all(const frontends::Stage& stage, Tensors known) const {
    std::vector<ir::Output> all;
    for (const auto& boundary : stage.program.provenance.boundaries)
      all.push_back({boundary.name, boundary.value});
    StageRunner runner(context_, stage, all);
    std::vector<std::vector<std::byte>> inputs;
    for (const ir::ValueId input : stage.program.inputs) {
      const auto& name = stage.program.values[input].name;
      const ir::TensorType& type = stage.program.type(input);
      if (!known.contains(name))
        known[name] = type.dtype == DType::kF32 ? noise(type) : io::HostTensor(type.dtype, type.shape);
      inputs.push_back(known[name].data);
    }
    for (auto& [name, tensor] : runner.run(inputs)) known[name] = tensor;
    return known;
  }

  Tensors step() const {
    Tensors found = run_all(chain_.step, {});
    for (const char* table : {"cos", "sin"}) {
      const frontends::ConstantRef* ref = chain_.step.constants.find(std::string("rotary.") + table);
      found[std::string("rotary_") + table] =
          io::HostTensor(ref->type.dtype, ref->type.shape, {ref->data, ref->data + ref->type.bytes()});
    }
    return found;
  }

  void write_fixture(const Tensors& tensors) const {
    std::vector<io::TensorToWrite> list;
    for (const auto& [name, tensor] : tensors)
      list.push_back({.name = name, .dtype = tensor.dtype, .shape = tensor.shape, .data = tensor.bytes()});
    value_of(io::write_safetensors(path("creator.safetensors"), list));
  }

  Arguments options(const Arguments& more) const {
    const bool vae = std::ranges::count(more, "--vae") != 0;
    return Arguments{"--checkpoint",
                     model(vae ? "vae/diffusion_pytorch_model.safetensors"
                               : "transformer/diffusion_pytorch_model.safetensors"),
                     "--fixture",
                     "creator.safetensors",
                     "--output",
                     "native.safetensors",
                     "--report",
                     "report.json",
                     "--diffir",
                     "block.difir",
                     "--image-tokens",
                     "4",
                     "--text-tokens",
                     "8",
                     "--backend",
                     "reference"} +
           more;
  }
  nlohmann::json gate(const Arguments& more) const {
    EXPECT_EQ(succeed("difflux2block", options(more)).find("FAIL"), std::string::npos);
    return nlohmann::json::parse(read_text(path("report.json")));
  }

  std::unique_ptr<frontends::Model> model_;
  frontends::Chain chain_;
  std::shared_ptr<runtime::Context> context_;
};

TEST_F(Flux2Block, ADoubleBlockAloneIsTheOneInTheChain) {
  Tensors fixture = step();
  fixture["hidden_states"] = fixture.at("transformer.x_embedder");
  fixture["encoder_hidden_states"] = fixture.at("transformer.context_embedder");
  fixture["temb_mod_img"] = fixture.at("transformer.double_stream_modulation_img");
  fixture["temb_mod_txt"] = fixture.at("transformer.double_stream_modulation_txt");
  write_fixture(fixture);
  const nlohmann::json report = gate({"--capture-boundary", "transformer.transformer_blocks.0.attn.norm_q"});
  EXPECT_EQ(report.at("kind"), "parity");
  EXPECT_EQ(report.at("verdict"), "PASS");
  EXPECT_GT(report.at("boundaries").size(), 5U);
  EXPECT_EQ(tensor("native.safetensors", "transformer.transformer_blocks.0.out1").data,
            fixture.at("transformer.transformer_blocks.0.out1").data);
  EXPECT_FALSE(tensor("native.safetensors", "transformer.transformer_blocks.0.attn.norm_q").data.empty());

  fixture.at("transformer.transformer_blocks.0.ff").as<float>()[3] += 1;
  write_fixture(fixture);
  const Finished broken = run("difflux2block", options({}));
  EXPECT_EQ(broken.status, 1);
  EXPECT_NE(broken.out.find("FAIL transformer.transformer_blocks.0.ff:"), std::string::npos) << broken.out;
  EXPECT_NE(broken.out.find("PASS transformer.transformer_blocks.0.out1:"), std::string::npos) << broken.out;
}

TEST_F(Flux2Block, ASingleBlockTakesTablesOfOneOrTwoNumbersAPair) {
  Tensors fixture = step();
  io::HostTensor joint = fixture.at("transformer.single_transformer_blocks.0");
  fixture["hidden_states"] = joint;
  fixture["temb_mod"] = fixture.at("transformer.single_stream_modulation");
  write_fixture(fixture);
  EXPECT_EQ(gate({"--single", "--block", "1"}).at("verdict"), "PASS");

  for (const char* name : {"rotary_cos", "rotary_sin"}) {
    const io::HostTensor& once = fixture.at(name);
    std::vector<float> twice;
    for (const float value : once.as<float>()) twice.insert(twice.end(), 2, value);
    fixture[name] = io::HostTensor::f32({once.shape.dim(0), 2 * once.shape.dim(1)}, twice);
  }
  write_fixture(fixture);
  EXPECT_EQ(gate({"--single", "--block", "1"}).at("verdict"), "PASS");
  fixture.at("rotary_cos").as<float>()[1] += 1;
  write_fixture(fixture);
  fail("difflux2block", options({"--single", "--block", "1"}), 2, "the two numbers of pair 0 differ");
}

TEST_F(Flux2Block, TheTransformerAndTheDecoderAreGatedWhole) {
  Tensors fixture = step();
  // The step's output has the name of its input: the noise is what went in.
  fixture["hidden_states"] = noise({DType::kF32, fixture.at("latents").shape});
  fixture["encoder_hidden_states"] = noise({DType::kF32, fixture.at("prompt_embeds").shape});
  fixture["timestep"] = io::HostTensor::f32({1}, std::vector<float>{1});
  write_fixture(fixture);
  EXPECT_EQ(gate({"--transformer", "--double-depth", "2", "--single-depth", "4"}).at("verdict"), "PASS");

  fixture = run_all(chain_.decode, {});
  fixture["vae.decoder"] = fixture.at("image");
  fixture["latents"] = fixture.at("vae.decode.z");
  write_fixture(fixture);
  EXPECT_EQ(gate({"--vae", "--latent-height", "4", "--latent-width", "4"}).at("verdict"), "PASS");
}

TEST_F(Flux2Block, WhatDoesNotFitIsRefused) {
  Tensors fixture = {{"hidden_states", io::HostTensor::f32({2}, std::vector<float>{1, 2})}};
  write_fixture(fixture);
  fail("difflux2block", options({}), 2, "transformer.transformer_blocks.0.out0");
  fail("difflux2block", options({"--block", "9"}), 2, "this transformer has 2, counted from 0");
  fail("difflux2block", options({"--attention", "cudnn"}), 2,
       "this version has no choice of the attention kernel");
  fail("difflux2block", options({"--vae", "--single"}), 2, "--single");
  fixture = {{"transformer.single_transformer_blocks.0", noise({DType::kF32, {1, 12, 192}})},
             {"hidden_states", noise({DType::kF32, {1, 11, 192}})}};
  write_fixture(fixture);
  fail("difflux2block", options({"--single"}), 2, "hidden_states is [1, 11, 192], expected [1, 12, 192]");
}

}  // namespace
}  // namespace dif::test
