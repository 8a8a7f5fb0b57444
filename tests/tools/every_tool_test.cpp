/// What all tools have in common, and diftokenize, help and doctor.
#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "io/safetensors.h"
#include "tests/tools/tool_test.h"

namespace dif::test {
namespace {

class EveryTool : public ToolTest {
 protected:
  /// The names that `dif help` lists.
  std::vector<std::string> tools() const {
    std::vector<std::string> names;
    std::istringstream lines(succeed("dif", {"help"}));
    // A line of the list: two blanks, a name, at least two blanks, a summary.
    for (std::string line; std::getline(lines, line);) {
      if (!line.starts_with("  ") || line.starts_with("  dif ")) continue;
      const std::size_t end = line.find(' ', 2);
      if (end != std::string::npos) names.push_back(line.substr(2, end - 2));
    }
    return names;
  }
};

TEST_F(EveryTool, IsListedByHelp) {
  const std::vector<std::string> names = tools();
  for (const char* name : {"generate", "difc", "difinspect", "difweights", "difrun", "difcompare", "difcast",
                           "difimage", "diftokenize", "help", "doctor", "difprobe"})
    EXPECT_NE(std::find(names.begin(), names.end(), name), names.end()) << name;
}

TEST_F(EveryTool, ExplainsItselfWithExamples) {
  for (const std::string& name : tools()) {
    if (name == "help") continue;
    const std::string text = succeed("dif", {name, "--help"});
    EXPECT_NE(text.find("Usage: "), std::string::npos) << text;
    EXPECT_NE(text.find("\nExamples:\n  dif"), std::string::npos) << text;
  }
}

TEST_F(EveryTool, PrintsItsUsageWithoutArguments) {
  for (const std::string& name : tools()) {
    if (name == "help" || name == "doctor") continue;  // these need none
    const Finished finished = run("dif", {name});
    EXPECT_EQ(finished.status, 2) << name;
    EXPECT_EQ(finished.out, "") << name;
    EXPECT_NE(finished.err.find("Usage: "), std::string::npos) << finished.err;
  }
}

TEST_F(EveryTool, RefusesOptionsThatDoNotExist) {
  for (const std::string& name : tools())
    if (name != "help") fail("dif", {name, "--no-such-option"}, 2, "");
}

TEST_F(EveryTool, IsReachedByLinkByFullAndByShortName) {
  const std::string help = succeed("difcompare", {"--help"});
  EXPECT_EQ(succeed("dif", {"difcompare", "--help"}), help);
  EXPECT_EQ(succeed("dif", {"compare", "--help"}), help);
}

TEST_F(EveryTool, DifAloneListsToolsAndKnowsItsVersion) {
  const Finished alone = run("dif", {});
  EXPECT_EQ(alone.status, 2);
  EXPECT_EQ(succeed("dif", {"--version"}).rfind("Diffusion Compiler ", 0), 0U);
  EXPECT_EQ(succeed("dif", {"--help"}), succeed("dif", {"help"}));
  fail("dif", {"paint"}, 2, "\"paint\" is not a tool");
}

TEST_F(EveryTool, AFullDiskIsAnErrorAndNotSilence) {
  write("a.diftensor", {DType::kF32, {2}});
  fail("difcast", {"a.diftensor", "/dev/full", "bf16"}, 2, "/dev/full");
}

// --- doctor -----------------------------------------------------------------------------------------------

TEST_F(EveryTool, DoctorFindsTheModelAndTheBackends) {
  const std::string text = succeed("dif", {"doctor"});
  for (const char* part : {"build ", "processor ", "memory ", "backend reference", "backend null", "model ",
                           "cache ", "works here"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  const auto document = nlohmann::json::parse(succeed("dif", {"doctor", "--json"}));
  EXPECT_EQ(document.at("kind"), "doctor");
  EXPECT_EQ(document.at("can_generate"), true);
  EXPECT_GE(document.at("machine").at("cpus_usable"), 1);
  EXPECT_EQ(document.at("backends").at("null").at("backend"), "null") << "each backend's own document";
  EXPECT_EQ(document.at("backends").at("reference").at("backend"), "reference");
}

TEST_F(EveryTool, DoctorSaysWhatToDoWithoutAModel) {
  const Finished finished = run("dif", {"doctor"}, {{"DIF_MODEL", "/nowhere"}, {"PATH", ""}});
  EXPECT_EQ(finished.status, 3);
  EXPECT_NE(finished.out.find("model              PROBLEM"), std::string::npos) << finished.out;
  EXPECT_NE(finished.out.find("->"), std::string::npos) << finished.out;
  EXPECT_NE(finished.err.find("there is no model"), std::string::npos) << finished.err;
}

TEST_F(EveryTool, DoctorReportsACacheFolderThatCannotBeWritten) {
  const std::string file = write("file", {DType::kF32, {1}});
  const std::string text = succeed("dif", {"doctor"}, {{"DIF_CACHE_DIR", file + "/cache"}});
  EXPECT_NE(text.find("cache              note"), std::string::npos) << text;
  EXPECT_NE(text.find("DIF_CACHE_DIR"), std::string::npos) << text;
}

TEST_F(EveryTool, DoctorReportsAPluginThatDoesNotLoad) {
  std::ofstream(path("libdif_broken.so")) << "not a library";
  const std::string text = succeed("dif", {"doctor"}, {{"DIF_BACKEND_DIR", folder_.path().string()}});
  EXPECT_NE(text.find("backend broken     PROBLEM"), std::string::npos) << text;
}

// --- difprobe ---------------------------------------------------------------------------------------------

TEST_F(EveryTool, ProbeKeepsItsFingerprintWhateverTheBudgets) {
  const auto probe = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"--backend", "reference", "--json"});
    return nlohmann::json::parse(succeed("difprobe", more));
  };
  const auto plain = probe({});
  const auto tight = probe({"--reserve-mib", "100", "--host-budget-mib", "1", "--pinned-budget-mib", "2",
                            "--workspace-budget-mib", "3", "--staging-budget-mib", "4"});
  EXPECT_EQ(plain.at("kind"), "device-probe");
  EXPECT_EQ(plain.at("fingerprint").get<std::string>().size(), 64U);
  EXPECT_EQ(plain.at("fingerprint"), tight.at("fingerprint"));
  EXPECT_EQ(tight.at("budget").at("host_bytes"), 1 << 20);
  EXPECT_EQ(tight.at("budget").at("pinned_bytes"), 2 << 20);
  EXPECT_EQ(tight.at("budget").at("workspace_bytes"), 3 << 20);
  EXPECT_EQ(tight.at("budget").at("staging_bytes"), 4 << 20);
  EXPECT_EQ(tight.at("budget").at("reserve_bytes"), 100 << 20);
  EXPECT_GT(plain.at("budget").at("usable_bytes"), 0);
  EXPECT_NE(
      probe({}).at("target").at("backend"),
      nlohmann::json::parse(succeed("difprobe", {"--backend", "null", "--json"})).at("target").at("backend"));
}

TEST_F(EveryTool, ProbeRefusesWhatIsNotHere) {
  EXPECT_NE(succeed("difprobe", {"--backend", "auto"}).find("fingerprint "), std::string::npos);
  fail("difprobe", {"--backend", "abacus"}, 3, "there is no backend \"abacus\"");
  fail("difprobe", {"--device", "3"}, 3, "has no device 3");
  fail("difprobe", {"--backend", "auto", "--reserve-mib", "99999999999999"}, 2,
       "--reserve-mib 99999999999999: expected 0 to");
  fail("difprobe", {"--backend", "auto", "--reserve-mib", "-1"}, 2, "--reserve-mib -1: expected 0 to");
}

// --- diftokenize ------------------------------------------------------------------------------------------

class Tokenize : public ToolTest {
 protected:
  std::vector<std::string> with(std::vector<std::string> more) const {
    std::vector<std::string> arguments = {"--processor", (model_dir() / "tokenizer").string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
};

TEST_F(Tokenize, PrintsTheIdsOfAText) {
  EXPECT_EQ(succeed("diftokenize", with({"--prompt", "red heart"})), "609 428\n");
  EXPECT_EQ(succeed("diftokenize", with({"--prompt", "red heart", "--quiet"})), "");
  EXPECT_EQ(succeed("diftokenize", {"--tokenizer-json", (model_dir() / "tokenizer/tokenizer.json").string(),
                                    "--prompt", "red heart"}),
            "609 428\n");
}

TEST_F(Tokenize, ReadsPromptFilesWithAndWithoutTheirLastNewline) {
  std::ofstream(path("p.txt")) << "red heart\n";
  EXPECT_EQ(succeed("diftokenize", with({"--prompt-file", "p.txt"})), "609 428 198\n");
  EXPECT_EQ(succeed("diftokenize", with({"--prompt-file", "p.txt", "--strip-trailing-newline"})),
            "609 428\n");
}

TEST_F(Tokenize, WritesIdsAsTextAndAsATensor) {
  succeed("diftokenize",
          with({"--prompt", "red heart", "--ids-out", "ids", "--diftensor-out", "ids.diftensor"}));
  EXPECT_NE(read_text(path("ids")).find("609"), std::string::npos);
  const auto tensor = io::read_tensor_file(path("ids.diftensor"));
  ASSERT_TRUE(tensor);
  EXPECT_EQ(tensor->dtype, DType::kI32);
  EXPECT_EQ(tensor->as<std::int32_t>()[1], 428);
}

TEST_F(Tokenize, ConditionerInputsAreThoseOfTheFixture) {
  succeed("diftokenize", with({"--prompt", "red heart", "--flux2-inputs-out", "in.safetensors", "--quiet"}));
  const std::string expected = fixture("emoji-klein/red-heart.safetensors");
  for (const std::string name :
       {"input_ids", "attention_mask", "negative_input_ids", "negative_attention_mask"})
    succeed("difcompare", {expected + "::" + name, "in.safetensors::" + name, "--max-abs", "0"});
}

TEST_F(Tokenize, TheBatteryOfTheFixturesPassesAndADamagedOneFails) {
  const std::string battery = fixture("emoji-klein/tokenizer_cases.json");
  EXPECT_EQ(succeed("diftokenize", with({"--battery", battery})).rfind("PASS", 0), 0U);
  std::ofstream(path("wrong.json"))
      << R"([{"text": "red heart", "ids": [609, 429]}, {"text": "", "ids": []}])";
  const Finished finished = run("diftokenize", with({"--battery", "wrong.json"}));
  EXPECT_EQ(finished.status, 1);
  EXPECT_NE(finished.out.find("1 of 2"), std::string::npos) << finished.out;
  EXPECT_NE(finished.out.find("expected 429, found 428"), std::string::npos) << finished.out;
}

TEST_F(Tokenize, RefusesBadCommandLinesAndFiles) {
  fail("diftokenize", {"--prompt", "x"}, 2, "");
  fail("diftokenize", with({}), 2, "");
  fail("diftokenize", with({"--prompt", "x", "--prompt-file", "y"}), 2, "");
  fail("diftokenize", with({"--prompt", "x", "--tokenizer-json", "y"}), 2, "");
  fail("diftokenize", with({"--prompt", "a\xff"}), 2, "UTF-8");
  fail("diftokenize", with({"--prompt-file", "/nowhere.txt"}), 2, "/nowhere.txt");
  fail("diftokenize", {"--processor", "/nowhere", "--prompt", "x"}, 2, "/nowhere");
  std::ofstream(path("bad.json")) << "{";
  fail("diftokenize", with({"--battery", "bad.json"}), 2, "bad.json");
  fail("diftokenize", {"--tokenizer-json", "bad.json", "--prompt", "x"}, 2, "bad.json");
}

}  // namespace
}  // namespace dif::test
