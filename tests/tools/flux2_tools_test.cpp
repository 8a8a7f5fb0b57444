/// difflux2sample, difflux2block and difcondition on the bundled model, small and with the reference backend.
#include <nlohmann/json.hpp>

#include "io/safetensors.h"
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
  EXPECT_TRUE(files().empty());
}

}  // namespace
}  // namespace dif::test
