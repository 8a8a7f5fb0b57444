#include "io/weight_bundle.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>

#include "io/sealed_envelope.h"
#include "io/test_files.h"
#include "tests/support/paths.h"

namespace dif::io {
namespace {

namespace fs = std::filesystem;

const std::string kProgram(64, 'a');

BundleRecord example() {
  return {kProgram,
          {{"../weights/a.safetensors", 100, sha256("a")}, {"b.safetensors", 64, sha256("b")}},
          {{"one", DType::kF32, Shape{2, 3}, 0, 8, 24},
           {"scalar", DType::kBF16, Shape{}, 1, 62, 2},
           {"tied", DType::kF32, Shape{6}, 0, 8, 24}}};
}

TEST(WeightBundle, ReadsWhatWasWritten) {
  const auto file = encode_weight_bundle(example());
  ASSERT_TRUE(file) << file.error().message;
  const auto record = parse_weight_bundle(*file, "x.difbind");
  ASSERT_TRUE(record) << record.error().message;
  EXPECT_EQ(*record, example());
  EXPECT_EQ(*encode_weight_bundle(*record), *file);
}

TEST(WeightBundle, RefusesEveryChangeOfAByteAndEveryLength) {
  const auto good = *encode_weight_bundle(example());
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (const int flip : {0x01, 0x80, 0xff}) {
      auto bad = good;
      bad[at] ^= static_cast<std::byte>(flip);
      EXPECT_FALSE(parse_weight_bundle(bad, "x")) << at;
    }
    EXPECT_FALSE(parse_weight_bundle(std::span(good).first(at), "x")) << at;
  }
}

TEST(WeightBundle, RefusesEveryChangeOfItsContentUnderARightDigest) {
  const auto good = *encode_weight_bundle(example());
  const std::vector<std::byte> payload(good.begin() + kEnvelopeHeaderBytes, good.end());
  std::size_t accepted = 0;
  for (std::size_t at = 0; at < payload.size(); ++at) {
    for (const int flip : {0x01, 0x02, 0x80, 0xff}) {
      auto bad = payload;
      bad[at] ^= static_cast<std::byte>(flip);
      const auto file = seal(kBundleKind, 1, bad);
      const auto record = parse_weight_bundle(file, "x");
      if (!record) continue;
      // What is accepted is another legal bundle, spelled as our writer spells it (a digest or a name
      // changed).
      ++accepted;
      EXPECT_NE(*record, example());
      EXPECT_EQ(*encode_weight_bundle(*record), file) << at;
    }
  }
  EXPECT_LT(accepted, payload.size());
}

TEST(WeightBundle, RefusesRecordsThatDoNotHoldTogether) {
  const auto refused = [](auto change, const std::string& part) {
    BundleRecord record = example();
    change(record);
    expect_refused(encode_weight_bundle(record), ErrorCode::kInvalidInput, {part});
  };
  using R = BundleRecord;
  refused([](R& r) { r.program = "abc"; }, "fingerprint");
  refused([](R& r) { r.tensors[0].bytes = 20; }, "tensor \"one\" of f32 [2, 3] has 20 bytes");
  refused([](R& r) { r.tensors[0].shape = Shape{-1}; }, "tensor \"one\"");
  refused([](R& r) { r.tensors[0].offset = 80; },
          "past the end of shard ../weights/a.safetensors, which has 100");
  refused([](R& r) { r.tensors[0].offset = UINT64_MAX; }, "past the end");
  refused([](R& r) { r.tensors[0].shard = 2; }, "in shard 2 of 2");
  refused([](R& r) { r.tensors[1].name = "one"; }, "tensor \"one\" is there twice or out of order");
  refused([](R& r) { r.tensors[0].name = "\xff"; }, "not UTF-8");
  refused([](R& r) { std::swap(r.shards[0], r.shards[1]); }, "out of order");
  refused([](R& r) { r.shards[0].path = "/abs/a"; }, "not a plain relative path");
  refused([](R& r) { r.shards[0].path = "../x/../a"; }, "not a plain relative path");
  refused([](R& r) { r.shards[0].path = ".."; }, "not a plain relative path");
  refused([](R& r) { r.shards[0].path = ""; }, "not a plain relative path");
  refused([](R& r) { r.shards.push_back({"c", 1, {}}); }, "no tensor is in shard \"c\"");
}

TEST(WeightBundle, AnotherKindOfFileIsNamed) {
  expect_refused(parse_weight_bundle(seal(kProgramKind, 1, {}), "x"), ErrorCode::kInvalidInput,
                 {"a program (.difir)"});
  expect_refused(parse_weight_bundle(seal(kBundleKind, 2, {}), "x"), ErrorCode::kInvalidInput, {"version 2"});
  expect_refused(parse_weight_bundle(seal(kBundleKind, 1, as_bytes("junk")), "x"), ErrorCode::kInvalidInput,
                 {"damaged"});
}

/// A checkpoint of two shards in model/ and a bundle of it in build/.
struct Sealed {
  test::ScratchDir dir;
  fs::path bundle = dir / "build/m.difbind";

  Sealed() {
    fs::create_directories(dir / "model");
    fs::create_directories(dir / "build");
    const std::vector<float> values = {1, 2, 3, 4};
    const auto data = std::as_bytes(std::span(values));
    EXPECT_TRUE(write_safetensors(dir / "model/s1.safetensors", {{"a", DType::kF32, Shape{4}, data}}));
    EXPECT_TRUE(write_safetensors(dir / "model/s2.safetensors", {{"b", DType::kF32, Shape{2, 2}, data}}));
    spit(dir / "model/m.safetensors.index.json",
         R"({"weight_map": {"a": "s1.safetensors", "b": "s2.safetensors"}})");
    const auto checkpoint = open_checkpoint(dir / "model/m.safetensors.index.json");
    EXPECT_TRUE(checkpoint);
    const std::vector<BundleBinding> bindings = {{"w.b", checkpoint->find("b")},
                                                 {"w.a", checkpoint->find("a")}};
    const auto record = make_bundle_record(kProgram, *checkpoint, bindings, bundle);
    EXPECT_TRUE(record) << record.error().message;
    EXPECT_TRUE(write_weight_bundle(bundle, *record));
  }
};

TEST(WeightBundle, BindsTheTensorsOfACheckpoint) {
  const Sealed files;
  const auto bundle = open_weight_bundle(files.bundle, {.verify_shards = true});
  ASSERT_TRUE(bundle) << bundle.error().message;
  EXPECT_EQ(bundle->record().shards[0].path, "../model/s1.safetensors");
  EXPECT_EQ(bundle->tensors().size(), 2U);
  const TensorRef* tensor = bundle->find("w.b");
  ASSERT_NE(tensor, nullptr);
  EXPECT_EQ(tensor->shape, (Shape{2, 2}));
  const float first = 1;
  EXPECT_EQ(std::memcmp(tensor->data, &first, 4), 0);
  expect_refused(bundle->require("b"), ErrorCode::kNotFound, {"binds no tensor \"b\""});
  EXPECT_TRUE(bundle->check());
}

TEST(WeightBundle, RecordsOnlyTheShardsThatAreUsed) {
  const Sealed files;
  const auto checkpoint = open_checkpoint(files.dir / "model/m.safetensors.index.json");
  const std::vector<BundleBinding> one = {{"x", checkpoint->find("b")}};
  const auto record = make_bundle_record(kProgram, *checkpoint, one, files.dir / "model/x.difbind");
  ASSERT_TRUE(record);
  ASSERT_EQ(record->shards.size(), 1U);
  EXPECT_EQ(record->shards[0].path, "s2.safetensors");
  const std::vector<BundleBinding> twice = {{"x", checkpoint->find("b")}, {"x", checkpoint->find("a")}};
  expect_refused(make_bundle_record(kProgram, *checkpoint, twice, files.bundle), ErrorCode::kInvalidInput,
                 {"\"x\" is there twice"});
}

TEST(WeightBundle, LooksBesideItselfThenInTheWeightsFolder) {
  const Sealed files;
  fs::create_directory(files.dir / "far");
  fs::rename(files.dir / "model", files.dir / "far/model");
  expect_refused(open_weight_bundle(files.bundle), ErrorCode::kNotFound,
                 {"2 problems", "shard ../model/s1.safetensors", "no such file"});
  EXPECT_TRUE(open_weight_bundle(files.bundle, {.weights_folder = files.dir / "far"}));  // far/model/s1...
  EXPECT_TRUE(
      open_weight_bundle(files.bundle, {.weights_folder = files.dir / "far/model"}));  // far/model/s1...
  expect_refused(open_weight_bundle(files.bundle, {.weights_folder = files.dir / "build"}),
                 ErrorCode::kNotFound, {"build/s1.safetensors"});
}

TEST(WeightBundle, RefusesAShardThatChangedAfterSealing) {
  const Sealed files;
  const fs::path shard = files.dir / "model/s1.safetensors";
  std::string content = slurp(shard);
  content.back() ^= 1;
  spit(shard, content);
  const auto bundle = open_weight_bundle(files.bundle);
  ASSERT_TRUE(bundle);  // same size: only the digest tells
  expect_refused(bundle->verify_shards(), ErrorCode::kInvalidInput, {"s1.safetensors changed after sealing"});
  expect_refused(open_weight_bundle(files.bundle, {.verify_shards = true}), ErrorCode::kInvalidInput,
                 {"changed after sealing"});
  spit(shard, content + "x");
  expect_refused(open_weight_bundle(files.bundle), ErrorCode::kInvalidInput,
                 {"s1.safetensors has", "expected"});
}

TEST(WeightBundle, ShrinkingWhileItIsUsedIsAnError) {
  const Sealed files;
  const auto bundle = open_weight_bundle(files.bundle);
  ASSERT_TRUE(bundle);
  ASSERT_EQ(::truncate((files.dir / "model/s2.safetensors").c_str(), 1), 0);
  expect_refused(bundle->check(), ErrorCode::kIo, {"s2.safetensors shrank"});
}

}  // namespace
}  // namespace dif::io
