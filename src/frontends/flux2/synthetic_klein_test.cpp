#include "frontends/flux2/synthetic_klein.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "frontends/flux2/synthetic_model_test_support.h"
#include "io/checkpoint.h"
#include "tests/support/paths.h"

namespace dif::frontends::flux2 {
namespace {

SyntheticModel model_of(std::string_view preset, const ModelChanges& changes = {}) {
  auto documents = preset_documents(preset);
  EXPECT_TRUE(documents) << documents.error().message;
  auto model = describe_synthetic_model(std::move(*documents), changes);
  EXPECT_TRUE(model) << model.error().message;
  return std::move(*model);
}

std::string error_of(ModelDocuments documents, const ModelChanges& changes = {}) {
  const auto model = describe_synthetic_model(std::move(documents), changes);
  return model ? "described" : model.error().message;
}

const SyntheticPart& part(const SyntheticModel& model, std::string_view name) {
  return *std::ranges::find(model.parts, name, &SyntheticPart::folder);
}

using Shapes = std::map<std::string, std::vector<std::int64_t>>;

Shapes shapes_of(const SyntheticPart& part) {
  Shapes shapes;
  for (const SyntheticTensor& tensor : part.tensors)
    shapes[tensor.name] = {tensor.shape.dims().begin(), tensor.shape.dims().end()};
  return shapes;
}

Shapes shapes_of(const test::TensorList& list) {
  Shapes shapes;
  for (const test::TestTensor& tensor : list) shapes[tensor.name] = tensor.shape;
  return shapes;
}

TEST(SyntheticKlein, HasTheParametersOfThePublishedModels) {
  const SyntheticModel model = model_of("klein-9b");
  EXPECT_EQ(part(model, "transformer").parameters(), 9'078'581'248U);
  EXPECT_EQ(part(model, "text_encoder").parameters(), 8'190'735'360U);
  std::uint64_t encoder = 0, decoder = 0;
  for (const SyntheticTensor& tensor : part(model, "vae").tensors) {
    const bool encodes = tensor.name.starts_with("encoder.") || tensor.name.starts_with("quant_conv.");
    const bool decodes = tensor.name.starts_with("decoder.") || tensor.name.starts_with("post_quant_conv.");
    (encodes ? encoder : decoder) +=
        encodes || decodes ? static_cast<std::uint64_t>(tensor.shape.numel()) : 0;
  }
  EXPECT_EQ(decoder, 49'620'259U);
  EXPECT_EQ(encoder, 34'425'856U);
}

TEST(SyntheticKlein, HasTheNamesAndShapesOfThePublishedCheckpoints) {
  for (const auto& [preset, sizes] :
       {std::pair{"klein-4b", test::klein_4b_sizes()}, {"klein-9b", test::klein_9b_sizes()}}) {
    const SyntheticModel model = model_of(preset);
    EXPECT_EQ(shapes_of(part(model, "transformer")), shapes_of(test::transformer_tensors(sizes))) << preset;
    EXPECT_EQ(shapes_of(part(model, "text_encoder")), shapes_of(test::text_encoder_tensors(sizes))) << preset;
    const Shapes vae = shapes_of(part(model, "vae"));
    for (const auto& [name, shape] : shapes_of(test::vae_tensors(sizes))) {
      ASSERT_TRUE(vae.contains(name)) << name;
      EXPECT_EQ(vae.at(name), shape) << name;
    }
  }
}

TEST(SyntheticKlein, IsTheBundledModelTensorByTensor) {
  const auto documents = read_model_documents(dif::test::model_dir());
  ASSERT_TRUE(documents) << documents.error().message;
  const auto model = describe_synthetic_model(*documents, {});
  ASSERT_TRUE(model) << model.error().message;
  for (const SyntheticPart& part : model->parts) {
    const auto checkpoint = io::open_checkpoint(dif::test::model_dir() / part.folder);
    ASSERT_TRUE(checkpoint) << checkpoint.error().message;
    Shapes there;
    for (const io::TensorRef* tensor : checkpoint->tensors())
      there[tensor->name] = {tensor->shape.dims().begin(), tensor->shape.dims().end()};
    EXPECT_EQ(shapes_of(part), there) << part.folder;
  }
}

TEST(SyntheticKlein, ChangesReachTheDocumentsAndTheTensors) {
  const SyntheticModel model = model_of(
      "klein-4b", {.blocks = {{1, 3}}, .encoder_layers = 27, .distilled = true, .dtype = DType::kF32});
  const auto json = [&](const char* path) { return nlohmann::json::parse(model.documents.at(path)); };
  EXPECT_EQ(json("transformer/config.json")["num_layers"], 1);
  EXPECT_EQ(json("transformer/config.json")["num_single_layers"], 3);
  EXPECT_EQ(json("text_encoder/config.json")["num_hidden_layers"], 27);
  EXPECT_EQ(json("text_encoder/config.json")["torch_dtype"], "float32");
  EXPECT_EQ(json("model_index.json")["is_distilled"], true);
  const Shapes transformer = shapes_of(part(model, "transformer"));
  EXPECT_TRUE(transformer.contains("single_transformer_blocks.2.attn.norm_q.weight"));
  EXPECT_FALSE(transformer.contains("single_transformer_blocks.3.attn.norm_q.weight"));
  EXPECT_FALSE(transformer.contains("transformer_blocks.1.attn.norm_q.weight"));
  EXPECT_FALSE(shapes_of(part(model, "text_encoder")).contains("model.layers.27.input_layernorm.weight"));
  EXPECT_EQ(part(model, "transformer").bytes(), 4 * part(model, "transformer").parameters());
}

TEST(SyntheticKlein, ASmallEncoderChangesTheTextWidthAlone) {
  const SyntheticModel whole = model_of("klein-4b"), small = model_of("klein-4b", {.small_encoder = true});
  Shapes expected = shapes_of(part(whole, "transformer"));
  expected["context_embedder.weight"] = {3072, 96};
  EXPECT_EQ(shapes_of(part(small, "transformer")), expected);
  EXPECT_LT(part(small, "text_encoder").bytes(), 2'000'000U);
}

TEST(SyntheticKlein, RefusesWhatOurReaderWouldRefuse) {
  const ModelDocuments tiny = *preset_documents("tiny");
  const auto broken = [&](const char* path, const char* from, const char* to) {
    ModelDocuments documents = tiny;
    std::string& text = documents[path];
    text.replace(text.find(from), std::string_view(from).size(), to);
    return error_of(documents);
  };
  EXPECT_NE(broken("transformer/config.json", "\"guidance_embeds\": false", "\"guidance_embeds\": true")
                .find("guidance_embeds"),
            std::string::npos);
  EXPECT_NE(broken("transformer/config.json", "\"joint_attention_dim\": 96", "\"joint_attention_dim\": 97")
                .find("do not belong together"),
            std::string::npos);
  EXPECT_NE(broken("model_index.json", "Flux2KleinPipeline", "OtherPipeline").find("OtherPipeline"),
            std::string::npos);
  EXPECT_NE(broken("vae/config.json", "DownEncoderBlock2D", "AttnDownBlock2D").find("down_block_types"),
            std::string::npos);
  EXPECT_NE(error_of(tiny, {.encoder_layers = 26}).find("num_hidden_layers: expected at least 27"),
            std::string::npos);
  EXPECT_NE(error_of(tiny, {.blocks = {{0, 0}}}).find("a transformer has blocks"), std::string::npos);
  ModelDocuments without = tiny;
  without.erase("vae/config.json");
  EXPECT_NE(error_of(without).find("vae/config.json is missing"), std::string::npos);
  const auto none = preset_documents("huge");
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().message.find("klein-4b, klein-9b, tiny"), std::string::npos);
}

}  // namespace
}  // namespace dif::frontends::flux2
