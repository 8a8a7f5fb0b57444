#include <gtest/gtest.h>

#include <filesystem>

#include "frontends/flux2/synthetic_model_test_support.h"
#include "frontends/model.h"
#include "tests/support/paths.h"

namespace dif::frontends::flux2 {
namespace {

namespace fs = std::filesystem;
using test::SyntheticModel;
using test::TensorList;

/// Writes the model, opens it and gives the error's text; "opened" when there is none.
std::string error_of(const SyntheticModel& model, const dif::test::ScratchDir& dir) {
  model.write(dir.path());
  const auto opened = open_model(dir.path());
  return opened ? "opened" : opened.error().message;
}

std::string error_of(const SyntheticModel& model) {
  const dif::test::ScratchDir dir;
  return error_of(model, dir);
}

std::string error_of_folder(const fs::path& folder) {
  const auto opened = open_model(folder);
  return opened ? "opened" : opened.error().message;
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}
#define EXPECT_CONTAINS(text, part) \
  EXPECT_TRUE(contains(text, part)) << "found: " << (text) << "\nwanted: " << (part)

void remove_tensor(TensorList& list, std::string_view name) {
  std::erase_if(list, [&](const test::TestTensor& tensor) { return tensor.name == name; });
}

test::TestTensor& tensor_named(TensorList& list, std::string_view name) {
  for (test::TestTensor& tensor : list)
    if (tensor.name == name) return tensor;
  throw std::runtime_error("no such test tensor");
}

TEST(OpenModel, OpensTheBundledModel) {
  const auto model = open_model(dif::test::model_dir());
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ((*model)->name(), "emoji-klein");
  EXPECT_EQ((*model)->family(), "flux2-klein");
  EXPECT_TRUE((*model)->supports_guidance());
  EXPECT_EQ((*model)->size_multiple(), 16);
  EXPECT_EQ((*model)->tokenizer_folder().filename(), "tokenizer");
  EXPECT_TRUE(fs::exists((*model)->scheduler_config()));
  EXPECT_EQ((*model)->chat_template().prefix, "<|im_start|>user\n");
  EXPECT_TRUE((*model)->check_files());
}

TEST(OpenModel, TakesDefaultsFromDifDefaults) {
  const auto model = open_model(dif::test::model_dir());
  ASSERT_TRUE(model) << model.error().message;
  const GenerationDefaults defaults = (*model)->defaults();
  EXPECT_EQ(defaults.width, 128);
  EXPECT_EQ(defaults.height, 128);
  EXPECT_EQ(defaults.steps, 20);
  EXPECT_EQ(defaults.guidance, 4.0f);
  EXPECT_EQ(defaults.text_tokens, 512);
}

TEST(OpenModel, DigestIsThatOfTheWeightsAlone) {
  const dif::test::ScratchDir one, two;
  SyntheticModel model(test::small_sizes());
  model.write(one.path());
  model.text_encoder_config["unused_by_us"] = 1;
  model.write(two.path());
  const auto first = open_model(one.path()), second = open_model(two.path());
  ASSERT_TRUE(first && second);
  const auto digest = (*first)->digest();
  ASSERT_TRUE(digest);
  EXPECT_EQ(digest->size(), 64u);
  EXPECT_EQ(*digest, (*second)->digest().value());
  EXPECT_NE(*digest, open_model(dif::test::model_dir()).value()->digest().value());
}

TEST(OpenModel, FilesThatAreGivenTakeThePlaceOfTheFolders) {
  const dif::test::ScratchDir dir, other;
  SyntheticModel model(test::small_sizes());
  model.write(dir.path());
  test::write_checkpoint(other / "ae.safetensors", test::creator_vae_tensors(test::small_sizes()));
  test::write_checkpoint(other / "flux.safetensors", test::creator_transformer_tensors(test::small_sizes()));
  const auto opened =
      open_model(dir.path(), {.transformer = other / "flux.safetensors", .vae = other / "ae.safetensors"});
  ASSERT_TRUE(opened) << opened.error().message;
  std::string files;
  for (const io::MappedFile* file : (*opened)->files()) files += file->path().filename().string() + " ";
  EXPECT_NE(files.find("flux.safetensors ae.safetensors"), std::string::npos) << files;

  const auto swapped = open_model(dir.path(), {.transformer = other / "ae.safetensors", .vae = {}});
  ASSERT_FALSE(swapped);
  EXPECT_NE(swapped.error().message.find("holds no transformer"), std::string::npos)
      << swapped.error().message;
  EXPECT_FALSE(open_model(dir.path(), {.transformer = {}, .vae = other / "missing.safetensors"}));
}

TEST(OpenModel, DefaultsOfABaseModel) {
  const dif::test::ScratchDir dir;
  SyntheticModel(test::small_sizes()).write(dir.path());
  const auto model = open_model(dir.path());
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ((*model)->defaults().width, 1024);
  EXPECT_EQ((*model)->defaults().steps, 50);
  EXPECT_EQ((*model)->defaults().guidance, 4.0f);
}

TEST(OpenModel, DistilledModelTakesFourStepsWithoutGuidance) {
  const dif::test::ScratchDir dir;
  SyntheticModel synthetic(test::small_sizes());
  synthetic.index["is_distilled"] = true;
  synthetic.write(dir.path());
  const auto model = open_model(dir.path());
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_FALSE((*model)->supports_guidance());
  EXPECT_EQ((*model)->defaults().steps, 4);
  EXPECT_EQ((*model)->defaults().guidance, 1.0f);
  const auto chain = (*model)->build({.width = 64, .height = 64, .steps = 4, .guidance = 4.0f});
  ASSERT_FALSE(chain);
  EXPECT_EQ(chain.error().message, "guidance 4: this model is distilled and runs without guidance (1)");
}

TEST(OpenModel, SaysWhatAModelFolderLooksLike) {
  const dif::test::ScratchDir dir;
  EXPECT_EQ(error_of_folder(dir / "nowhere"), (dir / "nowhere").string() + ": there is no such model folder");
  EXPECT_EQ(
      error_of_folder(dir.path()),
      dir.path().string() +
          ": no model_index.json in it; a model folder holds model_index.json and the folders transformer, "
          "text_encoder, vae, tokenizer and scheduler");
  test::write_text(dir / "x.safetensors", "x");
  EXPECT_CONTAINS(error_of_folder(dir / "x.safetensors"),
                  "x.safetensors: not a folder; a model folder holds");
}

TEST(OpenModel, NamesAnUnknownClassAndTheSupportedOnes) {
  SyntheticModel model(test::small_sizes());
  model.index["_class_name"] = "StableDiffusionXLPipeline";
  EXPECT_CONTAINS(error_of(model),
                  "model_index.json: _class_name is StableDiffusionXLPipeline, which is not supported; "
                  "supported: Flux2KleinPipeline");
  model.index.erase("_class_name");
  EXPECT_CONTAINS(error_of(model), "key _class_name");
}

TEST(OpenModel, NamesAMissingFolder) {
  for (const char* part : {"transformer", "text_encoder", "vae", "tokenizer", "scheduler"}) {
    const dif::test::ScratchDir dir;
    SyntheticModel(test::small_sizes()).write(dir.path());
    fs::remove_all(dir / part);
    EXPECT_EQ(error_of_folder(dir.path()),
              dir.path().string() + ": the folder " + part + " is missing, which model_index.json names");
  }
}

TEST(OpenModel, NamesAFolderWithoutWeightsOrConfig) {
  const dif::test::ScratchDir dir;
  SyntheticModel(test::small_sizes()).write(dir.path());
  fs::rename(dir / "vae/config.json", dir / "vae/old.json");
  EXPECT_EQ(error_of_folder(dir.path()), (dir / "vae").string() + ": there are weights but no config.json");
  fs::rename(dir / "vae/old.json", dir / "vae/config.json");
  fs::remove(dir / "vae/diffusion_pytorch_model.safetensors");
  EXPECT_EQ(error_of_folder(dir.path()), (dir / "vae").string() + ": no weights (.safetensors) in it");
}

TEST(OpenModel, RefusesComponentsOfAnotherClass) {
  SyntheticModel model(test::small_sizes());
  model.index["text_encoder"] = {"transformers", "Mistral3ForConditionalGeneration"};
  EXPECT_CONTAINS(error_of(model),
                  "key text_encoder: expected Qwen3ForCausalLM, found Mistral3ForConditionalGeneration");
}

TEST(OpenModel, NamesMissingTensors) {
  SyntheticModel model(test::small_sizes());
  remove_tensor(model.transformer, "transformer_blocks.1.ff.linear_in.weight");
  const dif::test::ScratchDir dir;
  EXPECT_EQ(error_of(model, dir),
            (dir / "transformer/diffusion_pytorch_model.safetensors").string() +
                ": the weights do not fit the model that config.json describes: 1 tensor is missing: "
                "transformer_blocks.1.ff.linear_in.weight [192, 32]");
}

TEST(OpenModel, ListsTenMissingTensorsAndTheCount) {
  SyntheticModel model(test::small_sizes());
  std::erase_if(model.text_encoder,
                [](const test::TestTensor& tensor) { return tensor.name.ends_with("up_proj.weight"); });
  const std::string error = error_of(model);
  EXPECT_CONTAINS(error, "27 tensors are missing: model.layers.0.mlp.up_proj.weight [24, 16], ");
  EXPECT_CONTAINS(error, "model.layers.9.mlp.up_proj.weight [24, 16], and 17 more");
}

TEST(OpenModel, NamesTensorsThatAreNotPartOfTheModel) {
  SyntheticModel model(test::small_sizes());
  model.transformer.push_back({"transformer_blocks.0.lora.weight", {4}});
  EXPECT_CONTAINS(error_of(model), "1 tensor is not part of it: transformer_blocks.0.lora.weight");
}

TEST(OpenModel, NamesTensorsOfAnotherShapeWithBothShapes) {
  SyntheticModel model(test::small_sizes());
  tensor_named(model.vae, "decoder.conv_norm_out.bias").shape = {7};
  EXPECT_CONTAINS(error_of(model),
                  "1 tensor has another shape: decoder.conv_norm_out.bias is [7], expected [8]");
}

TEST(OpenModel, NamesTensorsOfAnUnusableDtype) {
  SyntheticModel model(test::small_sizes());
  tensor_named(model.transformer, "proj_out.weight").dtype = "F8_E4M3";
  EXPECT_CONTAINS(error_of(model),
                  "1 tensor has a dtype other than f32, bf16 and f16: proj_out.weight is f8_e4m3");
}

TEST(OpenModel, TellsAllKindsOfProblemsAtOnce) {
  SyntheticModel model(test::small_sizes());
  remove_tensor(model.transformer, "single_transformer_blocks.0.attn.norm_k.weight");
  model.transformer.push_back({"extra", {1}});
  tensor_named(model.transformer, "single_transformer_blocks.1.attn.norm_k.weight").shape = {8};
  const std::string error = error_of(model);
  EXPECT_CONTAINS(error, "1 tensor is missing: single_transformer_blocks.0.attn.norm_k.weight [16]; ");
  EXPECT_CONTAINS(error, "1 tensor is not part of it: extra; ");
  EXPECT_CONTAINS(
      error,
      "1 tensor has another shape: single_transformer_blocks.1.attn.norm_k.weight is [8], expected [16]");
}

TEST(OpenModel, UnusedTensorsOfTheEncoderAreFine) {
  SyntheticModel model(test::small_sizes());
  model.text_encoder.push_back({"lm_head.weight", {64, 16}});
  EXPECT_EQ(error_of(model), "opened");
  model.text_encoder.push_back({"model.layers.27.anything", {1}});
  EXPECT_EQ(error_of(model), "opened");
  model.text_encoder.push_back({"model.layers.26.anything", {1}});
  EXPECT_CONTAINS(error_of(model), "1 tensor is not part of it: model.layers.26.anything");
}

TEST(OpenModel, NamesBothWidthsOfPartsThatDoNotBelongTogether) {
  test::Sizes other = test::small_sizes();
  other.hidden = 24;
  SyntheticModel model(test::small_sizes());
  const SyntheticModel stranger(other);
  model.text_encoder = stranger.text_encoder;
  model.text_encoder_config = stranger.text_encoder_config;
  EXPECT_EQ(error_of(model),
            "the parts of this model do not belong together: the transformer reads prompts 48 wide "
            "(joint_attention_dim), the text encoder gives 72 (3 x hidden_size 24)");

  other = test::small_sizes();
  other.latent_channels = 8;
  SyntheticModel second(test::small_sizes());
  second.vae = SyntheticModel(other).vae;
  second.vae_config = SyntheticModel(other).vae_config;
  EXPECT_EQ(error_of(second),
            "the parts of this model do not belong together: the transformer's latents are 16 wide "
            "(in_channels), the "
            "VAE decodes 32 (2 x 2 x latent_channels 8)");
}

TEST(OpenModel, OpensShards) {
  const dif::test::ScratchDir dir;
  SyntheticModel model(test::small_sizes());
  model.write(dir.path());
  const fs::path home = dir / "transformer";
  fs::remove(home / "diffusion_pytorch_model.safetensors");
  const auto half = model.transformer.begin() + static_cast<long>(model.transformer.size() / 2);
  nlohmann::json map;
  for (auto at = model.transformer.begin(); at != model.transformer.end(); ++at)
    map[at->name] = at < half ? "diffusion_pytorch_model-00001-of-00002.safetensors"
                              : "diffusion_pytorch_model-00002-of-00002.safetensors";
  test::write_checkpoint(home / "diffusion_pytorch_model-00001-of-00002.safetensors",
                         {model.transformer.begin(), half});
  test::write_checkpoint(home / "diffusion_pytorch_model-00002-of-00002.safetensors",
                         {half, model.transformer.end()});
  test::write_text(home / "diffusion_pytorch_model.safetensors.index.json",
                   nlohmann::json{{"metadata", nlohmann::json::object()}, {"weight_map", map}}.dump());
  EXPECT_EQ(error_of_folder(dir.path()), "opened");
}

TEST(OpenModel, FindsTheCreatorsFilesAtTheRoot) {
  const dif::test::ScratchDir dir;
  const test::Sizes sizes = test::small_sizes();
  SyntheticModel(sizes).write(dir.path());
  fs::remove_all(dir / "transformer");
  fs::remove(dir / "vae/diffusion_pytorch_model.safetensors");
  test::write_checkpoint(dir / "flux-2-klein-tiny.safetensors", test::creator_transformer_tensors(sizes));
  test::write_checkpoint(dir / "ae.safetensors", test::creator_vae_tensors(sizes));
  EXPECT_EQ(error_of_folder(dir.path()), "opened");

  test::write_checkpoint(dir / "another.safetensors", test::creator_transformer_tensors(sizes));
  EXPECT_EQ(error_of_folder(dir.path()), dir.path().string() +
                                             ": several files hold a transformer: another.safetensors, "
                                             "flux-2-klein-tiny.safetensors; keep one, or "
                                             "put the right one into " +
                                             (dir / "transformer").string());
}

TEST(OpenModel, WithoutConfigsShapesAndPublishedValuesDecide) {
  test::Sizes sizes = test::small_sizes();
  sizes.encoder_channels = sizes.decoder_channels = {32, 32, 64, 64};
  sizes.norm_groups = 32;
  for (const std::int64_t width : {32, 36}) {
    const dif::test::ScratchDir dir;
    sizes.decoder_channels[1] = width;
    SyntheticModel(sizes).write(dir.path());
    fs::remove_all(dir / "transformer");
    fs::remove_all(dir / "vae");
    test::write_checkpoint(dir / "flux-2-klein-tiny.safetensors", test::creator_transformer_tensors(sizes));
    test::write_checkpoint(dir / "ae.safetensors", test::creator_vae_tensors(sizes));
    if (width == 32)
      EXPECT_EQ(error_of_folder(dir.path()), "opened");
    else
      EXPECT_CONTAINS(
          error_of_folder(dir.path()),
          "ae.safetensors (without config.json): 32 groups do not divide 36 channels; config.json says "
          "norm_num_groups");
  }
}

TEST(OpenModel, TakesAFileOfAnyNameInTheComponentsFolder) {
  const dif::test::ScratchDir dir;
  const test::Sizes sizes = test::small_sizes();
  SyntheticModel(sizes).write(dir.path());
  fs::remove(dir / "transformer/diffusion_pytorch_model.safetensors");
  test::write_checkpoint(dir / "transformer/flux-2-klein-tiny.safetensors",
                         test::creator_transformer_tensors(sizes));
  EXPECT_EQ(error_of_folder(dir.path()), "opened");
  test::write_checkpoint(dir / "transformer/other.safetensors", test::transformer_tensors(sizes));
  EXPECT_CONTAINS(error_of_folder(dir.path()),
                  "several .safetensors files (flux-2-klein-tiny.safetensors, other.safetensors)");
}

TEST(DifDefaults, OverridesWhatItNames) {
  const dif::test::ScratchDir dir;
  SyntheticModel(test::small_sizes()).write(dir.path());
  test::write_text(dir / "dif-defaults.json", R"({"width": 96, "guidance": 1.5})");
  const auto model = open_model(dir.path());
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ((*model)->defaults().width, 96);
  EXPECT_EQ((*model)->defaults().height, 1024);
  EXPECT_EQ((*model)->defaults().guidance, 1.5f);
}

TEST(DifDefaults, EveryBadKeyIsNamed) {
  const dif::test::ScratchDir dir;
  SyntheticModel synthetic(test::small_sizes());
  synthetic.index["is_distilled"] = true;
  synthetic.write(dir.path());
  test::write_text(dir / "dif-defaults.json",
                   R"({"width": 100, "height": -16, "steps": 0, "guidance": 3, "seed": 1})");
  const std::string error = error_of_folder(dir.path());
  EXPECT_CONTAINS(error, "dif-defaults.json has");
  EXPECT_CONTAINS(error, "key width: expected a multiple of 16, found 100");
  EXPECT_CONTAINS(error, "key height: expected an integer from 1 to 8192, found -16");
  EXPECT_CONTAINS(error, "key steps: expected an integer from 1 to 10000, found 0");
  EXPECT_CONTAINS(error, "key guidance: expected 1 (the model is distilled), found 3");
  EXPECT_CONTAINS(error, "key seed: expected width, height, steps or guidance, found another key");
}

}  // namespace
}  // namespace dif::frontends::flux2
