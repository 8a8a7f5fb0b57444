/// Model folders and files that are damaged, incomplete or do not belong together. Each is one small change
/// to files that are right.
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>

#include "io/png.h"
#include "tests/reliability/reliability_test.h"

namespace dif::test {
namespace {

class ModelFiles : public ReliabilityTest {
 protected:
  ModelFiles() : ReliabilityTest("Model files") { link_model(); }

  void refused_model(const std::string& name, int status, const std::string& part) {
    refused(name, Arguments{"x", "--model", "model"} + kTiny, status, part);
  }
  /// Replaces `from` by `to` in a text file of the model, once.
  void change(const std::string& name, const std::string& from, const std::string& to) {
    const std::filesystem::path file = own_file(name);
    std::string text = read_text(file);
    const auto at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from << " in " << name << ": " << text.substr(0, 400);
    std::ofstream(file, std::ios::binary) << text.replace(at, from.size(), to);
  }
  /// Writes a checkpoint of the model again, with its list of tensors changed.
  void rewrite(const std::string& name, const std::function<void(std::vector<io::TensorToWrite>&)>& edit) {
    const std::filesystem::path file = own_file(name);
    const auto opened = io::open_safetensors(model_dir() / name);
    ASSERT_TRUE(opened) << opened.error().message;
    std::vector<io::TensorToWrite> tensors;
    for (const io::TensorRef& tensor : opened->tensors())
      tensors.push_back({tensor.name, tensor.dtype, tensor.shape, tensor.span()});
    edit(tensors);
    const Status written = io::write_safetensors(file, tensors, opened->metadata());
    ASSERT_TRUE(written) << written.error().message;
  }
  void restore(const std::string& name) {
    std::filesystem::remove(path("model/" + name));
    std::filesystem::create_symlink(std::filesystem::canonical(model_dir()) / name, path("model/" + name));
  }
};

constexpr const char* kTransformer = "transformer/diffusion_pytorch_model.safetensors";

TEST_F(ModelFiles, FoldersThatAreNone) {
  refused("--model missing", {"x", "--model", "missing"}, 2, "there is no such model folder");
  refused("--model a file", {"x", "--model", "model/model_index.json"}, 2, "not a folder");
  refused("--model an empty folder", {"x", "--model", "."}, 2, "no model_index.json");
  for (const char* name :
       {"tokenizer/tokenizer.json", "scheduler/scheduler_config.json", "transformer/config.json"}) {
    std::filesystem::remove(path("model/" + std::string(name)));
    refused_model(std::string(name) + " is missing", 2, std::string(name).substr(0, 6));
    restore(name);
  }
}

TEST_F(ModelFiles, ConfigurationsThatAreWrong) {
  const std::string config = "transformer/config.json";
  struct Case {
    const char *name, *file, *from, *to, *part;
  };
  for (const Case& c : std::initializer_list<Case>{
           {"model_index.json is no JSON", "model_index.json", "{", "", "model_index.json"},
           {"model_index.json names another pipeline", "model_index.json", "Flux2KleinPipeline",
            "OtherPipeline", "not supported"},
           {"config: a key is missing", "transformer/config.json", "\"num_layers\"", "\"num_layerz\"",
            "num_layers"},
           {"config: a text where a number belongs", "transformer/config.json",
            "\"num_layers\": ", "\"num_layers\": \"two\", \"other\": ", "num_layers"},
           {"config: an absurd size", "transformer/config.json",
            "\"num_layers\": ", "\"num_layers\": 4000000000000, \"other\": ", "num_layers"},
           {"tokenizer.json is cut", "tokenizer/tokenizer.json", "\"merges\"", "", "tokenizer.json"},
       }) {
    change(c.file, c.from, c.to);
    refused_model(c.name, 2, c.part);
    restore(c.file);
  }
}

TEST_F(ModelFiles, CheckpointsWithOtherTensors) {
  rewrite(kTransformer, [](auto& tensors) { tensors.pop_back(); });
  refused_model("a tensor is missing", 2, kTransformer);
  rewrite(kTransformer, [](auto& tensors) { tensors[1].name = "other.weight"; });
  refused_model("a tensor has another name", 2, "other.weight");
  rewrite(kTransformer, [](auto& tensors) {
    for (auto& tensor : tensors)
      if (tensor.name == "proj_out.weight") tensor.shape = {192, 32};
  });
  refused_model("a tensor has another shape", 2, "proj_out.weight");
}

TEST_F(ModelFiles, ConfigurationsAgainstShapes) {
  change("text_encoder/config.json", "\"hidden_size\": 64", "\"hidden_size\": 32");
  refused_model("config: a width that the weights do not have", 2, "hidden_size = 32");
}

TEST_F(ModelFiles, PartsThatDoNotBelongTogether) {
  // Right in itself, but for an encoder of half the width: the 9B transformer beside the 4B encoder.
  change("transformer/config.json", "\"joint_attention_dim\": 192", "\"joint_attention_dim\": 96");
  rewrite(kTransformer, [](auto& tensors) {
    for (auto& tensor : tensors)
      if (tensor.name == "context_embedder.weight") {
        tensor.shape = {192, 96};
        tensor.data = tensor.data.first(tensor.data.size() / 2);
      }
  });
  const Finished finished = generate(Arguments{"x", "--model", "model"} + kTiny);
  judge("a transformer for another text encoder", finished, 2, "96");
  EXPECT_NE(last_line(finished.err).find("192"), std::string::npos)
      << "both widths are named: " << finished.err;
}

TEST_F(ModelFiles, TokenizersThatContradictThemselves) {
  const std::string file = "tokenizer/tokenizer.json";
  const auto changed = [&](const std::string& name, const std::function<void(nlohmann::json&)>& edit,
                           const std::string& part) {
    nlohmann::json document = nlohmann::json::parse(read_text(model_dir() / file));
    edit(document);
    std::ofstream(own_file(file)) << document;
    refused_model(name, 2, part);
    restore(file);
  };
  changed(
      "tokenizer.json: a merge of what is no token", [](auto& d) { d["model"]["merges"][0] = "zqx zqy"; },
      "zqx");
  changed(
      "tokenizer.json: a merge that makes no token", [](auto& d) { d["model"]["merges"].push_back("q q"); },
      "qq");
  changed(
      "tokenizer.json: two added tokens with one id",
      [](auto& d) { d["added_tokens"][1]["id"] = d["added_tokens"][0]["id"]; }, "added_tokens");
  changed(
      "tokenizer.json: added tokens that stand for each other",
      [](auto& d) { std::swap(d["added_tokens"][0]["content"], d["added_tokens"][1]["content"]); },
      "added_tokens");
  changed(
      "tokenizer.json: an id as a text", [](auto& d) { d["model"]["vocab"]["!"] = "0"; }, "vocab");
}

/// The denoiser in two shards with an index that is right until a test changes it.
class Shards : public ModelFiles {
 protected:
  Shards() {
    section_ = "Sharded checkpoints";
    auto opened = io::open_safetensors(model_dir() / kTransformer);
    EXPECT_TRUE(opened) << opened.error().message;
    std::filesystem::remove(path(std::string("model/") + kTransformer));
    std::uint64_t total = 0;
    for (const io::TensorRef& tensor : opened->tensors()) {
      const bool first = tensors_[0].size() <= tensors_[1].size();
      tensors_[first ? 0 : 1].push_back({tensor.name, tensor.dtype, tensor.shape, tensor.span()});
      index_["weight_map"][tensor.name] = kShards[first ? 0 : 1];
      total += tensor.span().size();
    }
    index_["metadata"]["total_size"] = total;
    write_shard(0);
    write_shard(1);
    write_index();
    file_ = std::make_unique<io::SafetensorsFile>(std::move(*opened));
  }

  std::string in_transformer(const std::string& name) const { return path("model/transformer/" + name); }
  void write_shard(int i) const {
    const Status written = io::write_safetensors(in_transformer(kShards[i]), tensors_[i], {});
    EXPECT_TRUE(written) << written.error().message;
  }
  void write_index() const {
    std::ofstream(in_transformer("diffusion_pytorch_model.safetensors.index.json")) << index_;
  }

  static constexpr const char* kShards[] = {"diffusion_pytorch_model-00001-of-00002.safetensors",
                                            "diffusion_pytorch_model-00002-of-00002.safetensors"};
  std::unique_ptr<io::SafetensorsFile> file_;  ///< holds the bytes of the tensors
  std::vector<io::TensorToWrite> tensors_[2];
  nlohmann::json index_;
};

TEST_F(Shards, DrawThePictureOfOneFile) {
  succeed("dif", Arguments{"generate", "x", "--model", "model", "-o", "shards.png", "--seed", "1"} + kTiny);
  succeed("dif", Arguments{"generate", "x", "-o", "one.png", "--seed", "1"} + kTiny);
  EXPECT_EQ(io::read_png(path("shards.png"))->pixels, io::read_png(path("one.png"))->pixels);
}

TEST_F(Shards, ThatAreMissingOrRenamed) {
  std::filesystem::rename(in_transformer(kShards[1]), in_transformer("other.safetensors"));
  refused_model("a shard has another name", 2, kShards[1]);
  std::filesystem::remove(in_transformer("other.safetensors"));
  refused_model("a shard is missing", 2, kShards[1]);
}

TEST_F(Shards, WithOtherTensorsThanTheIndexSays) {
  const std::string name = tensors_[0].front().name;
  index_["weight_map"].erase(name);
  write_index();
  refused_model("a shard has a tensor that the index lacks", 2, name);
  index_["weight_map"][name] = kShards[1];
  write_index();
  refused_model("a tensor is in another shard than the index says", 2, name);
  index_["weight_map"][name] = kShards[0];
  index_["weight_map"]["ghost.weight"] = kShards[0];
  write_index();
  refused_model("the index names a tensor that no shard has", 2, "ghost.weight");
}

TEST_F(Shards, WithAnIndexThatIsWrong) {
  index_["metadata"]["total_size"] = 1;
  write_index();
  refused_model("the total of the index is stale", 2, "total_size");
  index_["weight_map"][tensors_[0].front().name] = "../vae/diffusion_pytorch_model.safetensors";
  write_index();
  refused_model("a shard outside the folder", 2, "../vae");
}

class Safetensors : public ReliabilityTest {
 protected:
  Safetensors() : ReliabilityTest("safetensors") {}

  void header(const std::string& name, const std::string& header, std::size_t data_bytes,
              const std::string& part) {
    const std::uint64_t length = header.size();
    std::string file(8, '\0');
    std::memcpy(file.data(), &length, 8);
    whole(name, file + header + std::string(data_bytes, '\0'), part);
  }
  void whole(const std::string& name, const std::string& bytes, const std::string& part) {
    std::ofstream(path("x.safetensors"), std::ios::binary) << bytes;
    refused(name, Arguments{"x", "--init-latents", "x.safetensors::a"} + kTiny, 2, part);
  }
};

TEST_F(Safetensors, HeadersThatLie) {
  const auto row = [](const std::string& shape, const std::string& offsets,
                      const std::string& dtype = "F32") {
    return "\"a\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}";
  };
  const std::string other = ",\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":";
  const std::string x = "x.safetensors";
  header("end before start", "{" + row("[1]", "[4,0]") + "}", 4, x);
  header("negative offset", "{" + row("[1]", "[-4,0]") + "}", 4, x);
  header("range past the file", "{" + row("[4]", "[0,16]") + "}", 4, "download incomplete");
  header("range that wraps 64 bits", "{" + row("[1]", "[18446744073709551612,18446744073709551616]") + "}", 4,
         x);
  header("range against shape and dtype", "{" + row("[2]", "[0,4]") + "}", 4, x);
  header("two tensors overlap", "{" + row("[1]", "[0,4]") + other + "[2,6]}}", 6, x);
  header("a hole between two tensors", "{" + row("[1]", "[0,4]") + other + "[8,12]}}", 12, x);
  header("bytes behind the last tensor", "{" + row("[1]", "[0,4]") + "}", 9, x);
  header("unknown dtype", "{" + row("[1]", "[0,4]", "Q7") + "}", 4, x);
  header("negative dimension", "{" + row("[-1]", "[0,4]") + "}", 4, x);
  header("fractional dimension", "{" + row("[1.5]", "[0,4]") + "}", 4, x);
  header("dimensions that overflow", "{" + row("[4294967296,4294967296,4]", "[0,4]") + "}", 4, x);
  header("one name twice", "{" + row("[1]", "[0,4]") + "," + row("[1]", "[4,8]") + "}", 8, x);
  header("a name that is not UTF-8", "{\"\xff\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
         x);
  header("metadata that are not strings", "{\"__metadata__\":{\"k\":1}," + row("[1]", "[0,4]") + "}", 4, x);
  header("no object", "[1]", 0, x);
  header("100,000 brackets", std::string(100000, '['), 0, x);
  header("another tensor is asked for", "{\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
         x);
  whole("an empty file", "", x);
  whole("seven bytes", "1234567", x);
  whole("a header of 2^64-1 bytes", std::string(8, '\xff') + "{}", x);
  whole("a header of 200 MB", std::string("\0\0\0\x0c\0\0\0\0", 8) + "{}", x);
}

class Sealed : public ReliabilityTest {
 protected:
  Sealed() : ReliabilityTest("Sealed files") {}
};

TEST_F(Sealed, ChangesAreNoticed) {
  succeed("dif", {"generate", "x", "--emit-programs", "chain", "--size", "16x16", "--steps", "1",
                  "--text-tokens", "8"});
  const std::string whole = read_text(path("chain/decode.difir"));
  ASSERT_GT(whole.size(), 1000U);
  const auto damaged = [&](const std::string& name, const std::string& bytes) {
    std::ofstream(path("damaged.difir"), std::ios::binary) << bytes;
    judge(name, run("difinspect", {"damaged.difir"}), 2, "damaged.difir");
  };
  damaged("a program that is empty", "");
  damaged("a program cut to half", whole.substr(0, whole.size() / 2));
  damaged("a program cut by one byte", whole.substr(0, whole.size() - 1));
  damaged("a program with a byte too many", whole + "x");
  for (const auto& [name, at] : {std::pair<const char*, std::size_t>{"first byte", 0},
                                 {"byte 9", 9},
                                 {"middle byte", whole.size() / 2},
                                 {"last byte", whole.size() - 1}}) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 0x40);
    damaged(std::string("a program with another ") + name, changed);
  }
}

TEST_F(Sealed, AShardThatChangedAfterSealingIsNoticed) {
  link_model();
  const std::filesystem::path weights = own_file("vae/diffusion_pytorch_model.safetensors");
  succeed("dif", {"generate", "x", "--model", "model", "--emit-programs", "chain", "--size", "16x16",
                  "--steps", "1", "--text-tokens", "8"});
  succeed("difweights", {"verify-bundle", "chain/decode.difbind", "chain/decode.difir"});
  std::fstream file(weights, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-1, std::ios::end);
  file.put('\x55');
  file.close();
  judge("a shard that changed after sealing",
        run("difweights", {"verify-bundle", "chain/decode.difbind", "chain/decode.difir"}), 2,
        "diffusion_pytorch_model.safetensors");
}

TEST_F(Sealed, DamagedTensorsAreRefused) {
  const std::vector<float> values(32, 1.0f);
  io::HostTensor latents(DType::kF32, {1, 1, 32});
  std::memcpy(latents.data.data(), values.data(), latents.data.size());
  write("a.diftensor", latents);
  const std::string whole = read_text(path("a.diftensor"));
  const auto damaged = [&](const std::string& name, const std::string& bytes) {
    std::ofstream(path("damaged.diftensor"), std::ios::binary) << bytes;
    refused(name, Arguments{"x", "--init-latents", "damaged.diftensor"} + kTiny, 2, "damaged.diftensor");
  };
  damaged("a tensor file that is empty", "");
  damaged("a tensor file cut by one byte", whole.substr(0, whole.size() - 1));
  std::string changed = whole;
  changed[changed.size() / 2] = static_cast<char>(changed[changed.size() / 2] ^ 1);
  damaged("a tensor file with another byte", changed);
}

}  // namespace
}  // namespace dif::test
