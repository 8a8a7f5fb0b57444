/// The passes keep the picture: bit for bit on the reference backend, and on the CPU as close as another
/// order of sums.
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "frontends/synthetic/synthetic_model.h"
#include "ir/program_file.h"
#include "pipelines/chain_builder.h"
#include "pipelines/optimize_chain.h"
#include "plan/lifetimes.h"
#include "tests/end_to_end/chain_runner.h"

namespace dif::test {
namespace {

namespace fs = std::filesystem;

std::shared_ptr<runtime::Context> context_on(const std::string& backend) {
  return value_of(runtime::Context::create(value_of(runtime::BackendLibrary::load_by_name(backend)),
                                           runtime::ContextOptions()));
}

GenerationSettings small_settings() {
  GenerationSettings settings;
  settings.prompt = "rocket on a pink background";
  settings.width = 32;
  settings.height = 16;
  settings.steps = 2;
  settings.guidance = 4;
  settings.text_tokens = 24;
  return settings;
}

Picture draw(const frontends::Model& model, const std::string& backend, GenerationSettings settings,
             const opt::Pipeline& passes) {
  settings.passes = passes;
  auto pipeline = value_of(TextToImage::create(model, context_on(backend), settings, {}));
  return value_of(pipeline->draw(5));
}

/// A model of random weights, with everything that a real one has.
std::unique_ptr<frontends::Model> random_model(const ScratchDir& folder) {
  const auto described = value_of(frontends::describe_synthetic_model(
      value_of(frontends::preset_documents("tiny")), frontends::ModelChanges()));
  value_of(frontends::write_synthetic_model(described, folder / "model",
                                            {.seed = 3, .tokenizer = model_dir() / "tokenizer"}));
  return value_of(frontends::open_model(folder / "model"));
}

TEST(Passes, KeepEveryBitOfARandomModelOnTheReferenceBackend) {
  const ScratchDir folder;
  const auto model = random_model(folder);
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    GenerationSettings settings = small_settings();
    settings.dtype = dtype;
    const Picture without = draw(*model, "reference", settings, {});
    const Picture with = draw(*model, "reference", settings, opt::default_pipeline());
    EXPECT_EQ(with.latents.data, without.latents.data) << dtype_name(dtype);
    EXPECT_EQ(with.image.pixels, without.image.pixels) << dtype_name(dtype);
  }
}

TEST(Passes, EachAloneKeepsEveryBitOfTheBundledModelOnTheReferenceBackend) {
  const auto model = value_of(frontends::open_model(model_dir()));
  GenerationSettings settings = small_settings();
  settings.width = 16;
  settings.steps = 1;
  const Picture without = draw(*model, "reference", settings, {});
  for (const opt::Pass* pass : opt::all_passes()) {
    if (!pass->exact) continue;
    const Picture with = draw(*model, "reference", settings, {pass});
    EXPECT_EQ(with.latents.data, without.latents.data) << pass->name;
    EXPECT_EQ(with.image.pixels, without.image.pixels) << pass->name;
  }
}

/// Sums of weights are rounded once more than products with each of them: 1e-7 of a value, so that a level of
/// a pixel changes only where it lies between two.
TEST(Passes, FoldedUpsamplingMovesPixelsByRoundingOnly) {
  const auto model = value_of(frontends::open_model(model_dir()));
  GenerationSettings settings = small_settings();
  settings.width = 16;
  settings.steps = 1;
  const Picture without = draw(*model, "reference", settings, {&opt::kChannelsLast});
  const Picture with = draw(*model, "reference", settings, {&opt::kChannelsLast, &opt::kFoldUpsample});
  EXPECT_EQ(with.latents.data, without.latents.data);
  std::size_t changed = 0;
  for (std::size_t i = 0; i < with.image.pixels.size(); ++i) {
    EXPECT_NEAR(with.image.pixels[i], without.image.pixels[i], 1);
    changed += with.image.pixels[i] != without.image.pixels[i];
  }
  EXPECT_LE(changed, with.image.pixels.size() / 100);
}

/// Seen after 4 guided steps: the same bytes. A wrong row or column moves latents by 1e-2 or more.
TEST(Passes, MoveTheLatentsOnTheCpuByRoundingOnly) {
  const auto model = value_of(frontends::open_model(model_dir()));
  GenerationSettings settings = small_settings();
  settings.width = settings.height = 128;
  settings.steps = 4;
  settings.text_tokens = 512;
  const Picture without = draw(*model, "cpu", settings, {});
  const Picture with = draw(*model, "cpu", settings, opt::default_pipeline());
  const double error = relative_l2(with.latents.as<float>(), without.latents.as<float>());
  RecordProperty("relative_l2", fmt::format("{:.3g}", error));
  EXPECT_LE(error, 5e-6);
}

/// The decoder with channels last and folded upsampling, where the CPU prefers them: sums in another order.
TEST(Passes, WhatTheCpuPrefersMovesPixelsByRoundingOnly) {
  const auto model = value_of(frontends::open_model(model_dir()));
  GenerationSettings settings = small_settings();
  settings.width = settings.height = 128;
  settings.steps = 1;
  const auto preferred =
      opt::default_pipeline(preferences_of(*value_of(runtime::BackendLibrary::load_by_name("cpu"))));
  const Picture without = draw(*model, "cpu", settings, opt::default_pipeline());
  const Picture with = draw(*model, "cpu", settings, preferred);
  EXPECT_EQ(with.latents.data, without.latents.data);
  std::size_t changed = 0;
  for (std::size_t i = 0; i < with.image.pixels.size(); ++i) {
    EXPECT_NEAR(with.image.pixels[i], without.image.pixels[i], 1);
    changed += with.image.pixels[i] != without.image.pixels[i];
  }
  EXPECT_LE(changed, with.image.pixels.size() / 100);
}

// --- what they achieve on the bundled model
// -------------------------------------------------------------------

class OptimisedChain : public ::testing::Test {
 protected:
  OptimisedChain() {
    const auto model = value_of(frontends::open_model(model_dir()));
    GenerationSettings settings = small_settings();
    settings.width = settings.height = 128;
    settings.steps = 20;
    settings.text_tokens = 512;
    built_ = value_of(build_chain(*model, settings));
    optimised_ = built_;
    value_of(optimize_chain(optimised_, opt::default_pipeline()));
  }

  /// Operations that every run executes, by the module they belong to.
  static std::multiset<std::string> modules_of_a_run(const ir::Program& program) {
    const std::vector<bool> constant = plan::constant_values(program);
    std::multiset<std::string> modules;
    for (ir::OpId id = 0; id < program.ops.size(); ++id)
      if (!constant[program.ops[id].results.front()]) modules.insert(program.provenance.op_modules.at(id));
    return modules;
  }

  frontends::Chain built_, optimised_;
};

TEST_F(OptimisedChain, AStepComputesNothingOfTheTimeEmbedding) {
  const std::string linear = "transformer.time_guidance_embed.timestep_embedder.linear_1";
  EXPECT_EQ(modules_of_a_run(built_.step.program).count(linear), 1U);
  EXPECT_EQ(modules_of_a_run(optimised_.step.program).count(linear), 0U);
  EXPECT_EQ(modules_of_a_run(optimised_.step.program).count("transformer.norm_out.linear"), 0U);
}

TEST_F(OptimisedChain, AStepAsksOnlyTheQueriesOfTheImageInTheLastBlock) {
  const double before = ir::flops(built_.step.program), after = ir::flops(optimised_.step.program);
  EXPECT_LT(after, 0.88 * before);
  bool found = false;
  for (ir::OpId id = 0; id < optimised_.step.program.ops.size(); ++id) {
    const ir::Op& op = optimised_.step.program.ops[id];
    if (op.def->name != "attention") continue;
    found = optimised_.step.program.type(op.operands[0]).dim(1) == 64;  // of the last one
  }
  EXPECT_TRUE(found);
}

TEST_F(OptimisedChain, EveryOperationStillHasItsModule) {
  for (const frontends::Stage* stage : {&optimised_.encode, &optimised_.step, &optimised_.decode})
    EXPECT_EQ(stage->program.provenance.op_modules.size(), stage->program.ops.size());
}

TEST_F(OptimisedChain, ASecondRunOfThePassesChangesNothing) {
  frontends::Chain again = optimised_;
  value_of(optimize_chain(again, opt::default_pipeline()));
  EXPECT_EQ(ir::fingerprint(again.step.program), ir::fingerprint(optimised_.step.program));
  EXPECT_EQ(ir::fingerprint(again.decode.program), ir::fingerprint(optimised_.decode.program));
}

// --- values that are not finite
// -------------------------------------------------------------------------------

/// A copy of the bundled model with one bf16 weight of the denoiser that is NaN.
void spoil(const fs::path& folder, const std::string& tensor) {
  fs::copy(model_dir(), folder, fs::copy_options::recursive);
  const fs::path file = folder / "transformer" / "diffusion_pytorch_model.safetensors";
  fs::permissions(file, fs::perms::owner_write, fs::perm_options::add);
  const std::uint64_t offset = [&] {
    const auto checkpoint = value_of(io::open_safetensors(file));
    return value_of(checkpoint.require(tensor))->file_offset;
  }();
  std::fstream out(file, std::ios::in | std::ios::out | std::ios::binary);
  out.seekp(static_cast<std::streamoff>(offset));
  out.write("\xc0\x7f", 2);
}

TEST(NonFinite, NamesTheModuleAlsoOfWhatThePassesHoisted) {
  for (const std::string module : {"time_guidance_embed.timestep_embedder.linear_1",
                                   "single_transformer_blocks.3.attn.to_qkv_mlp_proj"}) {
    const ScratchDir folder;
    spoil(folder / "model", module + ".weight");
    const auto model = value_of(frontends::open_model(folder / "model"));
    auto pipeline = value_of(TextToImage::create(*model, test_context(), small_settings(), {}));
    const auto picture = pipeline->draw(1);
    ASSERT_FALSE(picture);
    EXPECT_EQ(picture.error().code, ErrorCode::kNonFinite);
    EXPECT_NE(picture.error().message.find("denoise, step 0"), std::string::npos) << picture.error().message;
    EXPECT_NE(picture.error().message.find("module transformer." + module), std::string::npos)
        << picture.error().message;
    const auto again = pipeline->draw(1);
    ASSERT_FALSE(again);
    EXPECT_EQ(again.error().message, picture.error().message) << "a second picture says the same";
  }
}

}  // namespace
}  // namespace dif::test
