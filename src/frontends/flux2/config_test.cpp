#include <gtest/gtest.h>

#include "frontends/flux2/synthetic_model_test_support.h"
#include "frontends/model.h"
#include "tests/support/paths.h"

namespace dif::frontends::flux2 {
namespace {

using test::SyntheticModel;

std::string error_of(const SyntheticModel& model) {
  const dif::test::ScratchDir dir;
  model.write(dir.path());
  const auto opened = open_model(dir.path());
  return opened ? "opened" : opened.error().message;
}

SyntheticModel small() {
  return SyntheticModel(test::small_sizes());
}

#define EXPECT_CONTAINS(text, part) \
  EXPECT_NE((text).find(part), std::string::npos) << "found: " << (text) << "\nwanted: " << (part)

TEST(TransformerConfig, MissingKeysAndWrongTypesAreNamedTogether) {
  SyntheticModel model = small();
  model.transformer_config.erase("num_layers");
  model.transformer_config["num_attention_heads"] = "many";
  const std::string error = error_of(model);
  EXPECT_CONTAINS(error, "transformer/config.json has 2 problems");
  EXPECT_CONTAINS(error, "key num_layers");
  EXPECT_CONTAINS(error, "key num_attention_heads");
}

TEST(TransformerConfig, AbsurdSizesAreRefused) {
  for (const char* key : {"num_layers", "num_single_layers", "num_attention_heads", "attention_head_dim",
                          "joint_attention_dim", "in_channels", "timestep_guidance_channels"})
    for (const std::int64_t value : {std::int64_t{-1}, std::int64_t{1} << 40}) {
      SyntheticModel model = small();
      model.transformer_config[key] = value;
      const std::string error = error_of(model);
      EXPECT_CONTAINS(error, std::string("key ") + key + ": expected an integer from");
      EXPECT_CONTAINS(error, std::to_string(value));
    }
  SyntheticModel model = small();
  model.transformer_config["mlp_ratio"] = 1e30;
  EXPECT_CONTAINS(error_of(model), "key mlp_ratio: expected a number over 0, at most 64, found 1e+30");
}

TEST(TransformerConfig, DisagreementWithShapesNamesBothSides) {
  const std::pair<const char*, const char*> cases[] = {
      {"num_layers", "num_layers = 4, but "},
      {"num_single_layers", "num_single_layers = 4, but "},
      {"num_attention_heads", "num_attention_heads * attention_head_dim = 64, but x_embedder.weight in "},
      {"joint_attention_dim", "joint_attention_dim = 4, but context_embedder.weight in "},
      {"in_channels", "in_channels = 4, but x_embedder.weight in "},
      {"timestep_guidance_channels", "timestep_guidance_channels = 4, but time_guidance_embed"},
  };
  for (const auto& [key, sentence] : cases) {
    SyntheticModel model = small();
    model.transformer_config[key] = 4;
    const std::string error = error_of(model);
    EXPECT_CONTAINS(error, "transformer/config.json");
    EXPECT_CONTAINS(error, sentence);
    EXPECT_CONTAINS(error, "diffusion_pytorch_model.safetensors");
  }
  SyntheticModel model = small();
  model.transformer_config["joint_attention_dim"] = 4;
  EXPECT_CONTAINS(error_of(model), " is [32, 48], which makes it 48");
  model = small();
  model.transformer_config["num_layers"] = 4;
  EXPECT_CONTAINS(error_of(model), "holds 2 of them (transformer_blocks.#.attn.norm_q.weight)");
  model = small();
  model.transformer_config["mlp_ratio"] = 2.0;
  EXPECT_CONTAINS(error_of(model),
                  "the MLP's width (hidden * mlp_ratio) = 64, but transformer_blocks.0.ff.linear_out.weight");
}

TEST(TransformerConfig, RotaryAxesMustMakeUpTheHead) {
  SyntheticModel model = small();
  model.transformer_config["axes_dims_rope"] = {4, 4, 4};
  EXPECT_CONTAINS(
      error_of(model),
      "key axes_dims_rope: expected 4 even numbers that add up to the head width 16, found [4, 4, 4]");
  model.transformer_config["axes_dims_rope"] = {2, 2, 4, 8};
  EXPECT_EQ(error_of(model), "opened");
}

TEST(TransformerConfig, GuidanceEmbeddingIsRefused) {
  SyntheticModel model = small();
  model.transformer_config["guidance_embeds"] = true;
  EXPECT_CONTAINS(error_of(model),
                  "key guidance_embeds: expected false (FLUX.2 klein; FLUX.2 dev with its guidance "
                  "embedding is not supported), found true");
  model = small();
  model.transformer_config.erase("guidance_embeds");
  model.transformer.push_back({"time_guidance_embed.guidance_embedder.linear_1.weight", {32, 256}});
  EXPECT_CONTAINS(error_of(model), "holds a guidance embedding");
}

TEST(TransformerConfig, SingleBlocksAloneMakeAModel) {
  test::Sizes sizes = test::small_sizes();
  sizes.double_blocks = 0;
  EXPECT_EQ(error_of(SyntheticModel(sizes)), "opened");
  sizes.single_blocks = 0;
  EXPECT_CONTAINS(error_of(SyntheticModel(sizes)), "holds no transformer block");
}

TEST(TextEncoderConfig, NeedsTheTappedLayers) {
  test::Sizes sizes = test::small_sizes();
  sizes.layers = 20;
  EXPECT_CONTAINS(
      error_of(SyntheticModel(sizes)),
      "key num_hidden_layers: expected at least 27 (the prompt is read after that layer), found 20");
}

TEST(TextEncoderConfig, ReadsRopeParametersOfNewerFiles) {
  SyntheticModel model = small();
  model.text_encoder_config.erase("rope_theta");
  EXPECT_CONTAINS(error_of(model), "key rope_theta");
  model.text_encoder_config["rope_parameters"] = {{"rope_theta", 1e6}, {"rope_type", "default"}};
  EXPECT_EQ(error_of(model), "opened");
  model.text_encoder_config["rope_parameters"]["rope_type"] = "yarn";
  EXPECT_CONTAINS(error_of(model), "expected default (no scaling of positions), found yarn");
}

TEST(TextEncoderConfig, VariantsAreRefused) {
  SyntheticModel model = small();
  model.text_encoder_config["attention_bias"] = true;
  model.text_encoder_config["use_sliding_window"] = true;
  model.text_encoder_config["hidden_act"] = "gelu";
  model.text_encoder_config["rope_scaling"] = {{"rope_type", "yarn"}};
  const std::string error = error_of(model);
  for (const char* key : {"attention_bias", "use_sliding_window", "hidden_act", "rope_type"})
    EXPECT_CONTAINS(error, key);
}

TEST(TextEncoderConfig, DisagreementWithShapesNamesBothSides) {
  for (const auto& [key, value] :
       {std::pair{"hidden_size", 32}, std::pair{"vocab_size", 65}, std::pair{"head_dim", 16},
        std::pair{"num_attention_heads", 8}, std::pair{"num_key_value_heads", 1},
        std::pair{"intermediate_size", 25}, std::pair{"num_hidden_layers", 29}}) {
    SyntheticModel model = small();
    model.text_encoder_config[key] = value;
    const std::string error = error_of(model);
    EXPECT_CONTAINS(error, "text_encoder/config.json");
    EXPECT_CONTAINS(error, key);
    EXPECT_CONTAINS(error, "text_encoder/model.safetensors");
  }
}

TEST(TextEncoderConfig, HeadCountsMustFit) {
  SyntheticModel model = small();
  model.text_encoder_config["num_key_value_heads"] = 3;
  EXPECT_CONTAINS(error_of(model),
                  "key num_attention_heads: expected a multiple of num_key_value_heads = 3, found 4");
}

TEST(VaeConfig, ANarrowerDecoderOpens) {
  test::Sizes sizes = test::small_sizes();
  sizes.decoder_channels = {4, 8, 8, 12};
  EXPECT_EQ(error_of(SyntheticModel(sizes)), "opened");
}

TEST(VaeConfig, OtherDepthsGroupsAndPartsOpen) {
  test::Sizes sizes = test::small_sizes();
  sizes.layers_per_block = 2;
  sizes.norm_groups = 2;
  sizes.mid_attention = false;
  sizes.post_quant_conv = false;
  EXPECT_EQ(error_of(SyntheticModel(sizes)), "opened");
  sizes.encoder_channels = sizes.decoder_channels = {8, 16};
  EXPECT_EQ(error_of(SyntheticModel(sizes)), "opened");
}

TEST(VaeConfig, DisagreementWithShapesNamesBothSides) {
  const std::pair<nlohmann::json, const char*> cases[] = {
      {{{"block_out_channels", {8, 12, 16, 32}}},
       "decoder channels of level 3 = 32, but decoder.up_blocks.0.resnets.0.conv1.weight in "},
      {{{"block_out_channels", {8, 12, 16}}}, "the number of levels (block_out_channels) = 3, but "},
      {{{"latent_channels", 5}}, "latent_channels = 5, but decoder.conv_in.weight in "},
      {{{"layers_per_block", 3}}, "the number of resnets per level (layers_per_block + 1) = 4, but "},
      {{{"mid_block_add_attention", false}}, "mid_block_add_attention = false, but "},
      {{{"use_post_quant_conv", false}}, "use_post_quant_conv = false, but "},
  };
  for (const auto& [change, sentence] : cases) {
    SyntheticModel model = small();
    model.vae_config.update(change);
    const std::string error = error_of(model);
    EXPECT_CONTAINS(error, "vae/config.json");
    EXPECT_CONTAINS(error, sentence);
    EXPECT_CONTAINS(error, "vae/diffusion_pytorch_model.safetensors");
  }
}

TEST(VaeConfig, GroupsMustDivideEveryWidth) {
  SyntheticModel model = small();
  model.vae_config["norm_num_groups"] = 8;
  EXPECT_CONTAINS(error_of(model),
                  "key norm_num_groups: expected a divisor of the channel count 12, found 8");
}

TEST(VaeConfig, VariantsAreRefused) {
  SyntheticModel model = small();
  model.vae_config["act_fn"] = "relu";
  model.vae_config["patch_size"] = {4, 4};
  model.vae_config["up_block_types"] = {"AttnUpDecoderBlock2D"};
  model.vae_config["out_channels"] = 4;
  model.vae_config["decoder_block_out_channels"] = {8, 12};
  const std::string error = error_of(model);
  for (const char* key :
       {"act_fn", "patch_size", "up_block_types", "out_channels", "decoder_block_out_channels"})
    EXPECT_CONTAINS(error, std::string("key ") + key);
}

}  // namespace
}  // namespace dif::frontends::flux2
