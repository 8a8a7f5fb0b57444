#include "io/checkpoint.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>

#include "io/test_files.h"
#include "tests/support/paths.h"

namespace dif::io {
namespace {

namespace fs = std::filesystem;

constexpr char kIndex[] = "diffusion_pytorch_model.safetensors.index.json";

void write_shard(const fs::path& path, const std::vector<std::string>& names) {
  const std::vector<float> values = {1, 2};
  std::vector<TensorToWrite> tensors;
  for (const std::string& name : names)
    tensors.push_back({name, DType::kF32, Shape{2}, std::as_bytes(std::span(values))});
  ASSERT_TRUE(write_safetensors(path, tensors));
}

/// Two shards: a and b in the first, c in the second; `index` replaces the text of the index.
struct Sharded {
  test::ScratchDir dir;
  Sharded() {
    write_shard(dir / "model-1.safetensors", {"a", "b"});
    write_shard(dir / "model-2.safetensors", {"c"});
    index(R"({"metadata": {"total_size": 24},
              "weight_map": {"a": "model-1.safetensors", "b": "model-1.safetensors", "c": "model-2.safetensors"}})");
  }
  void index(std::string_view text) const { spit(dir / kIndex, text); }
  Result<Checkpoint> open() const { return open_checkpoint(dir / kIndex); }
};

TEST(Checkpoint, OpensOneFileOrItsFolder) {
  const test::ScratchDir dir;
  write_shard(dir / "model.safetensors", {"x", "y"});
  for (const fs::path& path : {dir / "model.safetensors", dir.path()}) {
    const auto checkpoint = open_checkpoint(path);
    ASSERT_TRUE(checkpoint) << checkpoint.error().message;
    EXPECT_EQ(checkpoint->names(), (std::vector<std::string>{"x", "y"}));
    EXPECT_EQ(checkpoint->total_bytes(), 16U);
    EXPECT_EQ(checkpoint->path(), dir / "model.safetensors");
    EXPECT_EQ(checkpoint->digest().value(), sha256(slurp(dir / "model.safetensors")));
  }
}

TEST(Checkpoint, OpensShardsByIndexOrFolder) {
  const Sharded files;
  for (const fs::path& path : {files.dir / kIndex, files.dir.path()}) {
    const auto checkpoint = open_checkpoint(path);
    ASSERT_TRUE(checkpoint) << checkpoint.error().message;
    EXPECT_EQ(checkpoint->names(), (std::vector<std::string>{"a", "b", "c"}));
    EXPECT_EQ(checkpoint->shards().size(), 2U);
    ASSERT_NE(checkpoint->find("c"), nullptr);
    EXPECT_EQ(checkpoint->find("c")->file, &checkpoint->shards()[1].file());
    EXPECT_TRUE(checkpoint->require("b"));
    expect_refused(checkpoint->require("d"), ErrorCode::kNotFound, {kIndex, "no tensor \"d\" among its 3"});
  }
}

TEST(Checkpoint, PointersStayWhenItIsMoved) {
  const Sharded files;
  auto opened = files.open();
  ASSERT_TRUE(opened);
  const TensorRef* tensor = opened->find("a");
  const Checkpoint moved = std::move(*opened);
  EXPECT_EQ(moved.find("a"), tensor);
  EXPECT_EQ(tensor->file, &moved.shards()[0].file());
  EXPECT_EQ(std::memcmp(tensor->data, "\0\0\x80\x3f", 4), 0);
}

TEST(Checkpoint, DigestOfShardsIsTheDigestOfTheirDigests) {
  const Sharded files;
  const auto checkpoint = files.open();
  ASSERT_TRUE(checkpoint);
  const Digest first = sha256(slurp(files.dir / "model-1.safetensors"));
  const Digest second = sha256(slurp(files.dir / "model-2.safetensors"));
  std::string both(reinterpret_cast<const char*>(first.data()), 32);
  both.append(reinterpret_cast<const char*>(second.data()), 32);
  EXPECT_EQ(checkpoint->shard_digests().value(), (std::vector<Digest>{first, second}));
  EXPECT_EQ(checkpoint->digest().value(), sha256(both));
}

TEST(Checkpoint, NamesMissingShardsAndWhatIsThereInstead) {
  const Sharded files;
  fs::rename(files.dir / "model-2.safetensors", files.dir / "model-02.safetensors");
  expect_refused(files.open(), ErrorCode::kNotFound,
                 {kIndex, "shard model-2.safetensors is missing", "model-02.safetensors"});
  fs::remove(files.dir / "model-1.safetensors");
  expect_refused(
      files.open(), ErrorCode::kNotFound,
      {"2 problems", "shard model-1.safetensors is missing", "shard model-2.safetensors is missing"});
}

TEST(Checkpoint, NamesDamagedShards) {
  const Sharded files;
  ASSERT_EQ(::truncate((files.dir / "model-1.safetensors").c_str(), 100), 0);
  expect_refused(files.open(), ErrorCode::kInvalidInput, {"model-1.safetensors", "download incomplete"});
  ASSERT_EQ(::truncate((files.dir / "model-2.safetensors").c_str(), 3), 0);
  expect_refused(files.open(), ErrorCode::kInvalidInput,
                 {"2 problems", "model-1.safetensors", "model-2.safetensors"});
}

TEST(Checkpoint, NamesAbsentAndExtraTensors) {
  const Sharded files;
  files.index(
      R"({"weight_map": {"a": "model-1.safetensors", "b": "model-1.safetensors", "c": "model-2.safetensors",
                                 "q": "model-2.safetensors", "r": "model-2.safetensors"}})");
  expect_refused(files.open(), ErrorCode::kInvalidInput,
                 {"2 problems", "tensor \"q\" is not in shard model-2.safetensors", "\"r\""});
  files.index(R"({"weight_map": {"a": "model-1.safetensors", "c": "model-2.safetensors"}})");
  expect_refused(files.open(), ErrorCode::kInvalidInput,
                 {"shard model-1.safetensors has tensor \"b\", which the index does not name"});
  write_shard(files.dir / "model-2.safetensors", {"c", "a"});
  files.index(
      R"({"weight_map": {"a": "model-1.safetensors", "b": "model-1.safetensors", "c": "model-2.safetensors"}})");
  expect_refused(files.open(), ErrorCode::kInvalidInput,
                 {"\"a\", which the index expects in model-1.safetensors"});
}

TEST(Checkpoint, ListsTenOfManyProblems) {
  const Sharded files;
  std::string map;
  for (int i = 0; i < 25; ++i) map += ", \"n" + std::to_string(i) + "\": \"model-1.safetensors\"";
  files.index(R"({"weight_map": {"c": "model-2.safetensors")" + map + "}}");
  expect_refused(files.open(), ErrorCode::kInvalidInput, {"25 problems", "and 15 more"});
}

TEST(Checkpoint, RefusesAStaleTotal) {
  const Sharded files;
  const auto with_total = [&](const std::string& total) {
    files.index(R"({"metadata": {"total_size": )" + total + R"(}, "weight_map":
                {"a": "model-1.safetensors", "b": "model-1.safetensors", "c": "model-2.safetensors"}})");
    return files.open();
  };
  EXPECT_TRUE(with_total("24"));
  EXPECT_TRUE(with_total("24.0"));
  expect_refused(with_total("32"), ErrorCode::kInvalidInput, {"total_size is 32, the shards hold 24 bytes"});
  expect_refused(with_total("\"24\""), ErrorCode::kInvalidInput,
                 {"metadata.total_size: expected a number of bytes"});
  expect_refused(with_total("-24"), ErrorCode::kInvalidInput, {"total_size"});
  expect_refused(with_total("24.5"), ErrorCode::kInvalidInput, {"total_size"});
}

TEST(Checkpoint, RefusesShardsOutsideTheFolder) {
  const Sharded files;
  for (const char* name :
       {"../model.safetensors", "/etc/model.safetensors", "a/../../m.safetensors", "./m", "..", "m/"}) {
    files.index(std::string(R"({"weight_map": {"a": ")") + name + "\"}}");
    expect_refused(files.open(), ErrorCode::kInvalidInput, {"below the folder of the index", name});
  }
}

TEST(Checkpoint, RefusesADamagedIndex) {
  const Sharded files;
  const auto refused = [&](std::string_view text, const std::string& part) {
    files.index(text);
    expect_refused(files.open(), ErrorCode::kInvalidInput, {kIndex, part});
  };
  refused("{", "not valid JSON");
  refused("{}", "key weight_map: expected an object");
  refused(R"({"weight_map": []})", "expected an object");
  refused(R"({"weight_map": {}})", "at least one tensor");
  refused(R"({"weight_map": {"a": 1}})", "key weight_map.a: expected a string");
  refused(R"({"weight_map": {"a": ""}})", "empty shard name");
  refused(R"({"weight_map": {"a": "m", "a": "m"}})", "twice");
}

TEST(SafetensorsIndex, CountsAHundredThousandProblemsWithoutAHang) {
  std::string map = "\"a\": 1";
  for (int i = 1; i < 100'000; ++i) map += fmt::format(", \"{}\": {}", i, i);
  expect_refused(parse_safetensors_index("{\"weight_map\": {" + map + "}}", "x"), ErrorCode::kInvalidInput,
                 {"x has 100000 problems", "and 99990 more"});
}

TEST(Checkpoint, SaysWhatAFolderLacks) {
  const test::ScratchDir dir;
  expect_refused(open_checkpoint(dir.path()), ErrorCode::kNotFound,
                 {dir.path().native(), "model*.safetensors"});
  expect_refused(open_checkpoint(dir / "no"), ErrorCode::kNotFound, {"/no"});
  write_shard(dir / "model-00001-of-00002.safetensors", {"a"});
  expect_refused(open_checkpoint(dir.path()), ErrorCode::kInvalidInput,
                 {"but no model.safetensors.index.json"});
  fs::rename(dir / "model-00001-of-00002.safetensors", dir / "model.fp16.safetensors");
  EXPECT_TRUE(open_checkpoint(dir.path()));
  write_shard(dir / "model.bf16.safetensors", {"a"});
  expect_refused(open_checkpoint(dir.path()), ErrorCode::kInvalidInput,
                 {"several checkpoints (model.bf16.safetensors, model.fp16.safetensors)"});
}

TEST(Checkpoint, OpensTheBundledModel) {
  for (const char* part : {"transformer", "vae", "text_encoder"}) {
    const auto checkpoint = open_checkpoint(test::model_dir() / part);
    ASSERT_TRUE(checkpoint) << checkpoint.error().message;
    EXPECT_GT(checkpoint->tensor_count(), 10U);
    EXPECT_TRUE(checkpoint->check());
  }
}

TEST(Checkpoint, ShrinkingWhileItIsUsedIsAnError) {
  const Sharded files;
  const auto checkpoint = files.open();
  ASSERT_TRUE(checkpoint);
  ASSERT_EQ(::truncate((files.dir / "model-2.safetensors").c_str(), 8), 0);
  expect_refused(checkpoint->check(), ErrorCode::kIo, {"model-2.safetensors shrank"});
  expect_refused(checkpoint->digest(), ErrorCode::kIo, {"model-2.safetensors shrank"});
}

}  // namespace
}  // namespace dif::io
