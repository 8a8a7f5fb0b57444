/// difweights stats, inspect-shard, inspect-index, synth.
#include <signal.h>

#include <nlohmann/json.hpp>

#include "tests/tools/tool_test.h"

namespace dif::test {
namespace {

class CheckpointTools : public ToolTest {
 protected:
  std::string transformer() const { return (model_dir() / "transformer").string(); }
};

TEST_F(CheckpointTools, StatsCountsTheBundledTransformer) {
  const std::string out = succeed("difweights", {"stats", transformer(), "--top", "1"});
  EXPECT_NE(out.find("4596224 elements"), std::string::npos) << out;
  EXPECT_NE(out.find("pattern single_transformer_blocks.#.attn.norm_k.weight BF16[32]: 4 times"),
            std::string::npos)
      << out;
  const auto document =
      nlohmann::json::parse(succeed("difweights", {"stats", transformer(), "--top", "3", "--json"}));
  EXPECT_EQ(document["kind"], "checkpoint-stats");
  EXPECT_EQ(document["totals"]["elements"], 4596224);
  EXPECT_EQ(document["largest"].size(), 3U);
}

TEST_F(CheckpointTools, SynthWritesAModelThatGenerateDraws) {
  const std::string out = succeed("difweights", {"synth", "--preset", "tiny", "--blocks", "1,1",
                                                 "--shard-size", "200KB", "--quiet", "model"});
  EXPECT_NE(out.find("transformer"), std::string::npos);
  succeed("dif", {"generate", "a red apple", "--model", "model", "--steps", "2", "--text-tokens", "16", "-o",
                  "a.png", "-q"});
  EXPECT_TRUE(files().contains("a.png"));

  const std::string index = "model/transformer/diffusion_pytorch_model.safetensors.index.json";
  const std::string listed = succeed("difweights", {"inspect-index", index});
  EXPECT_NE(listed.find("shard 0: diffusion_pytorch_model-00001-of-0000"), std::string::npos) << listed;
  EXPECT_NE(listed.find("x_embedder.weight BF16[64, 16]"), std::string::npos) << listed;
  const std::string name = listed.substr(9, listed.find(": ", 9) - 9);
  const std::string shard = succeed("difweights", {"inspect-shard", "model/transformer/" + name});
  EXPECT_NE(shard.find("metadata format = pt"), std::string::npos) << shard;
  EXPECT_NE(shard.find("time_guidance_embed.timestep_embedder.linear_1.weight BF16[64, 256]"),
            std::string::npos)
      << shard;
}

TEST_F(CheckpointTools, SynthFollowsAModelFolder) {
  succeed("difweights", {"synth", "--like", model_dir().string(), "--seed", "3", "-q", "model"});
  const auto of = [&](const std::string& folder) {
    auto document = nlohmann::json::parse(succeed("difweights", {"stats", folder, "--top", "0", "--json"}));
    document.erase("checkpoint");
    return document;
  };
  EXPECT_EQ(of("model/transformer"), of(transformer()));
  EXPECT_EQ(read_text(folder_ / "model/tokenizer/tokenizer.json"),
            read_text(model_dir() / "tokenizer/tokenizer.json"));
}

TEST_F(CheckpointTools, SynthInterruptedLeavesNoFolder) {
  Running running(
      "difweights",
      {"synth", "--preset", "klein-4b", "--blocks", "1,1", "--small-encoder", "--progress", "json", "model"},
      folder_.path());
  ASSERT_TRUE(running.wait_for_stderr("\"progress\":\"write\""));
  running.send(SIGINT);
  const Finished finished = running.wait();
  EXPECT_EQ(finished.status, 130) << finished.err;
  EXPECT_TRUE(files().empty());
}

TEST_F(CheckpointTools, DryRunWritesNothing) {
  const std::string out = succeed("difweights", {"synth", "--preset", "klein-9b", "--dry-run", "model"});
  EXPECT_NE(out.find("9078581248 parameters"), std::string::npos) << out;
  EXPECT_TRUE(files().empty());
}

TEST_F(CheckpointTools, RefusesBadCommandLines) {
  fail("difweights", {"synth", "model"}, 2, "--like MODEL_DIR or --preset klein-4b|klein-9b|tiny");
  fail("difweights", {"synth", "--preset", "huge", "model"}, 2, "\"huge\" is no preset");
  fail("difweights", {"synth", "--preset", "tiny", "--like", "x", "model"}, 2, "excludes");
  fail("difweights", {"synth", "--preset", "tiny", "--blocks", "2", "model"}, 2,
       "--blocks 2: expected DOUBLE,SINGLE");
  fail("difweights", {"synth", "--preset", "tiny", "--encoder-layers", "3", "model"}, 2, "at least 27");
  fail("difweights", {"synth", "--preset", "tiny", "--shard-size", "0", "model"}, 2, "--shard-size 0");
  fail("difweights", {"synth", "--preset", "tiny", "--tokenizer", ".", "-q", "model"}, 2,
       "no tokenizer.json");
  fail("difweights", {"synth", "--preset", "tiny", "-q", "no/model"}, 2, "parent folder does not exist");
  fail("difweights", {"inspect-shard", "model.index.json"}, 2, "ends in .safetensors");
  fail("difweights", {"stats", "nowhere"}, 2, "nowhere");
  EXPECT_TRUE(files().empty());
}

}  // namespace
}  // namespace dif::test
