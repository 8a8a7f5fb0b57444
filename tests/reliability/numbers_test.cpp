/// NaN, infinity and overflow anywhere end in exit status 1, one sentence that says where, and no picture.
#include <chrono>
#include <cstdio>
#include <cstring>
#include <limits>

#include "pipelines/text_to_image.h"
#include "runtime/finite.h"
#include "tests/reliability/reliability_test.h"

namespace dif::test {
namespace {

constexpr std::uint16_t kNan = 0x7fc0, kInfinity = 0x7f80, kHuge = 0x7f7f;  // bf16; the last is 3.39e38

class Numbers : public ReliabilityTest {
 protected:
  Numbers() : ReliabilityTest("Numbers") {}

  /// The patched model must be refused with these parts in the sentence, and draw when asked to all the same.
  void not_finite(const std::string& name, const std::vector<std::string>& parts,
                  const Arguments& more = {}) {
    const Arguments run = Arguments{"x", "--model", "model"} + kTiny + more;
    const Finished finished = generate(run);
    judge(name, finished, 1, parts.front());
    for (const std::string& part : parts)
      EXPECT_NE(last_line(finished.err).find(part), std::string::npos) << name << ", " << part << "\n"
                                                                       << finished.err;
    const Finished anyway = generate(run + Arguments{"--allow-nonfinite", "-o", "anyway.png"});
    EXPECT_EQ(anyway.status, 0) << name << "\n" << anyway.err;
    EXPECT_TRUE(std::filesystem::remove(path("anyway.png"))) << name;
  }
};

const std::string kFirst = "is the first whose result holds ";
const std::string kLargest = "; its largest finite input is ";

TEST_F(Numbers, NanInTheDenoisersWeights) {
  link_model();
  patch("transformer/diffusion_pytorch_model.safetensors", "proj_out.weight", kNan);
  not_finite("NaN in a weight of the denoiser", {"denoise, step 0: ", kFirst + "NaN", kLargest,
                                                 "module transformer.proj_out", "--allow-nonfinite"});
}

TEST_F(Numbers, InfinityInTheDenoisersWeights) {
  link_model();
  patch("transformer/diffusion_pytorch_model.safetensors", "context_embedder.weight", kInfinity);
  not_finite("infinity in a weight of the denoiser",
             {"denoise, step 0: ", kFirst, kLargest, "module transformer.context_embedder"});
}

TEST_F(Numbers, NanInTheEncodersWeights) {
  link_model();
  patch("text_encoder/model.safetensors", "model.layers.1.self_attn.o_proj.weight", kNan);
  not_finite("NaN in a weight of the text encoder",
             {"encode: ", kFirst + "NaN", kLargest, "module text_encoder.model.layers.1.self_attn.o_proj"});
}

TEST_F(Numbers, OverflowOfActivations) {
  link_model();
  patch("vae/diffusion_pytorch_model.safetensors", "decoder.conv_in.weight", kHuge, 64 * 8 * 9);
  not_finite("weights of 3.39e38 in the decoder: its activations overflow",
             {"decode: ", kFirst, kLargest, "module vae."});
}

TEST_F(Numbers, NanInTheDecodersWeightsWhenItRunsInParts) {
  for (const std::string module : {"decoder.conv_in", "decoder.conv_out"})
    for (const std::string way : {"slabs", "tiles"}) {
      std::filesystem::remove_all(path("model"));
      link_model();
      patch("vae/diffusion_pytorch_model.safetensors", module + ".weight", kNan);
      not_finite(
          fmt::format("NaN in a weight of {}, --decode {}", module, way),
          {"decode: program decode", kFirst + "NaN", "(conv2d)", "module vae." + module, "--allow-nonfinite"},
          {"--decode", way});
    }
}

TEST_F(Numbers, NoiseThatIsNotFinite) {
  for (const auto& [name, value] :
       {std::pair<std::string, float>{"NaN", std::numeric_limits<float>::quiet_NaN()},
        {"infinity", std::numeric_limits<float>::infinity()}}) {
    io::HostTensor latents(DType::kF32, {1, 1, 32});
    std::memcpy(latents.data.data() + 20, &value, sizeof(value));
    write("start.diftensor", latents);
    const Arguments run = Arguments{"x", "--init-latents", "start.diftensor"} + kTiny;
    refused("initial latents with " + name, run, 1, "the initial latents hold NaN or infinity");
    EXPECT_EQ(generate(run + Arguments{"--allow-nonfinite", "-o", "anyway.png"}).status, 0);
    EXPECT_TRUE(std::filesystem::remove(path("anyway.png")));
  }
}

TEST_F(Numbers, NoiseThatOverflows) {
  io::HostTensor latents(DType::kF32, {1, 1, 32});
  const float huge = 3e38f;
  for (std::size_t i = 0; i < 32; ++i)
    std::memcpy(latents.data.data() + i * sizeof(huge), &huge, sizeof(huge));
  write("start.diftensor", latents);
  const Arguments run = Arguments{"x", "--init-latents", "start.diftensor"} + kTiny;
  const Finished finished = generate(run);
  judge("initial latents of 3e38", finished, 1, kFirst);
  EXPECT_NE(last_line(finished.err).find("denoise, step 0: "), std::string::npos) << finished.err;
}

TEST(FiniteCheck, CostsLessThanHalfAPercentOfARun) {
  const auto model = frontends::open_model(model_dir());
  ASSERT_TRUE(model) << model.error().message;
  // The faster the backend, the larger the share; the smaller bundle has only the reference.
  auto library = runtime::BackendLibrary::load_by_name("cpu");
  if (!library) library = runtime::BackendLibrary::load_by_name("reference");
  ASSERT_TRUE(library) << library.error().message;
  const auto context = runtime::Context::create(*library, {});
  ASSERT_TRUE(context) << context.error().message;
  GenerationSettings settings{
      .prompt = "x", .width = 64, .height = 64, .steps = 4, .guidance = 1, .text_tokens = 64};
  const auto pipeline = TextToImage::create(**model, *context, settings, {});
  ASSERT_TRUE(pipeline) << pipeline.error().message;
  const auto start = std::chrono::steady_clock::now();
  const auto picture = (*pipeline)->draw(1);
  const double run = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  ASSERT_TRUE(picture) << picture.error().message;

  // What a run looks at: the latents of every step and the decoded picture.
  const std::vector<float> image(std::size_t{3} * 64 * 64, 0.5f);
  double check = 1e9;
  for (int i = 0; i < 5; ++i) {
    const auto checked = std::chrono::steady_clock::now();
    bool finite = runtime::all_finite(DType::kF32, std::as_bytes(std::span(image)));
    for (int step = 0; step < 4; ++step) finite &= runtime::all_finite(DType::kF32, picture->latents.data);
    EXPECT_TRUE(finite);
    check =
        std::min(check, std::chrono::duration<double>(std::chrono::steady_clock::now() - checked).count());
  }
  RecordProperty("percent_of_a_run", std::to_string(100 * check / run));
  std::printf("the finite check takes %.6f %% of a run on %s\n", 100 * check / run,
              (*library)->name().c_str());
  EXPECT_LT(check, 0.005 * run) << check << " s of " << run << " s";
}

}  // namespace
}  // namespace dif::test
