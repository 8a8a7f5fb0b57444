#include "frontends/synthetic/synthetic_model.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/float_convert.h"
#include "frontends/model.h"
#include "frontends/synthetic/random_tensor.h"
#include "io/checkpoint.h"
#include "tests/support/paths.h"

namespace dif::frontends {
namespace {

namespace fs = std::filesystem;

SyntheticModel tiny(const ModelChanges& changes = {}) {
  auto model = describe_synthetic_model(*preset_documents("tiny"), changes);
  EXPECT_TRUE(model) << model.error().message;
  return std::move(*model);
}

SyntheticWriteOptions options(std::uint64_t seed = 0) {
  return {.seed = seed, .tokenizer = test::model_dir() / "tokenizer"};
}

std::string digest_of(const fs::path& folder) {
  const auto model = open_model(folder);
  EXPECT_TRUE(model) << model.error().message;
  return model ? (*model)->digest().value_or("") : "";
}

TEST(SyntheticModel, OpensAsAModelAndDependsOnTheSeedAlone) {
  const test::ScratchDir dir;
  for (const auto& [name, seed] : {std::pair{"a", 1}, {"b", 1}, {"c", 2}})
    ASSERT_TRUE(write_synthetic_model(tiny(), dir / name, options(static_cast<std::uint64_t>(seed)))) << name;
  EXPECT_EQ(digest_of(dir / "a"), digest_of(dir / "b"));
  EXPECT_NE(digest_of(dir / "a"), digest_of(dir / "c"));
}

TEST(SyntheticModel, ShardsHoldTheSameTensors) {
  const test::ScratchDir dir;
  SyntheticWriteOptions small_files = options();
  small_files.max_shard_bytes = 100'000;
  ASSERT_TRUE(write_synthetic_model(tiny(), dir / "one", options()));
  ASSERT_TRUE(write_synthetic_model(tiny(), dir / "many", small_files));
  const auto one = io::open_checkpoint(dir / "one" / "transformer"),
             many = io::open_checkpoint(dir / "many" / "transformer");
  ASSERT_TRUE(one && many);
  EXPECT_EQ(one->shards().size(), 1U);
  EXPECT_GT(many->shards().size(), 3U);
  ASSERT_EQ(one->tensor_count(), many->tensor_count());
  for (const io::TensorRef* tensor : one->tensors()) {
    const io::TensorRef* const other = many->find(tensor->name);
    ASSERT_NE(other, nullptr) << tensor->name;
    EXPECT_EQ(std::memcmp(tensor->data, other->data, tensor->bytes), 0) << tensor->name;
  }
}

TEST(SyntheticModel, EveryTensorCanBeMadeByItself) {
  const test::ScratchDir dir;
  const SyntheticModel bf16 = tiny(), f32 = tiny({.dtype = DType::kF32});
  ASSERT_TRUE(write_synthetic_model(bf16, dir / "bf16", options(5)));
  ASSERT_TRUE(write_synthetic_model(f32, dir / "f32", options(5)));
  for (const SyntheticPart& part : f32.parts) {
    const auto whole = io::open_checkpoint(dir / "f32" / part.folder),
               half = io::open_checkpoint(dir / "bf16" / part.folder);
    ASSERT_TRUE(whole && half);
    for (const SyntheticTensor& tensor : part.tensors) {
      if (tensor.dtype != DType::kF32) continue;
      std::vector<float> expected(static_cast<std::size_t>(tensor.shape.numel()));
      RandomTensor(5, part.folder + "/" + tensor.name, tensor.centre, tensor.spread).fill(0, expected);
      EXPECT_EQ(std::memcmp(whole->find(tensor.name)->data, expected.data(), expected.size() * 4), 0)
          << tensor.name;
      std::uint16_t last = 0;
      const io::TensorRef* const rounded = half->find(tensor.name);
      std::memcpy(&last, rounded->data + rounded->bytes - 2, 2);
      EXPECT_EQ(last, f32_to_bf16(expected.back())) << tensor.name;
    }
  }
}

TEST(SyntheticModel, AnInterruptedRunLeavesNoFolder) {
  const test::ScratchDir dir;
  SyntheticWriteOptions stopped = options();
  stopped.progress = [](std::uint64_t bytes) -> Status {
    if (bytes > 200'000) return fail(ErrorCode::kCancelled, "enough");
    return ok();
  };
  const Status written = write_synthetic_model(tiny(), dir / "out", stopped);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().message, "enough");
  EXPECT_TRUE(fs::is_empty(dir.path()));
}

TEST(SyntheticModel, ADiskWithoutRoomIsNamedBeforeAnythingIsWritten) {
  const test::ScratchDir dir;
  ModelDocuments documents = *preset_documents("tiny");
  auto config = nlohmann::json::parse(documents["transformer/config.json"]);
  config["num_attention_heads"] = 1024;
  config["attention_head_dim"] = 4096;
  config["axes_dims_rope"] = {1024, 1024, 1024, 1024};
  documents["transformer/config.json"] = config.dump();
  const auto huge = describe_synthetic_model(std::move(documents), {.blocks = {{0, 1024}}});
  ASSERT_TRUE(huge) << huge.error().message;
  SyntheticWriteOptions guarded = options();
  guarded.progress = [](std::uint64_t) -> Status { return fail(ErrorCode::kInternal, "it began to write"); };
  const Status written = write_synthetic_model(*huge, dir / "out", guarded);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, ErrorCode::kIo);
  // 2 bytes for each of 13 d^2 weights in 1024 blocks and 18 d^2 beside them, d = 2^22: 469 petabytes.
  EXPECT_NE(written.error().message.find("out needs 469"), std::string::npos) << written.error().message;
  EXPECT_NE(written.error().message.find("GB free"), std::string::npos) << written.error().message;
  EXPECT_TRUE(fs::is_empty(dir.path()));
}

TEST(ModelDocuments, AreReadWithoutWeights) {
  const test::ScratchDir dir;
  const ModelDocuments tiny = *preset_documents("tiny");
  for (const auto& [path, text] : tiny) {
    fs::create_directories((dir / path).parent_path());
    std::ofstream(dir / path) << text;
  }
  const auto documents = read_model_documents(dir.path());
  ASSERT_TRUE(documents) << documents.error().message;
  EXPECT_EQ(*documents, tiny);
}

TEST(ModelDocuments, APartThatLeavesTheFolderIsRefused) {
  const test::ScratchDir dir;
  std::ofstream(dir / "model_index.json")
      << R"({"_class_name": "Flux2KleinPipeline", "../elsewhere": ["a", "b"]})";
  const auto documents = read_model_documents(dir.path());
  ASSERT_FALSE(documents);
  EXPECT_NE(documents.error().message.find("\"../elsewhere\" cannot be the name of a part"),
            std::string::npos);
}

}  // namespace
}  // namespace dif::frontends
