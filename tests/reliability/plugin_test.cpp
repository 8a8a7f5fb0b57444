/// Plug-ins that are missing, damaged, or say what is not so.
#include <csignal>
#include <nlohmann/json.hpp>

#include "tests/reliability/reliability_test.h"

namespace dif::test {
namespace {

class Plugin : public ReliabilityTest {
 protected:
  Plugin() : ReliabilityTest("Plug-ins") {}

  std::string lying() const { return (bin_dir() / "examples" / "libdif_test_lying.so").string(); }
  Finished with_lie(const std::string& lie, const Arguments& more = {}) const {
    return run("dif",
               Arguments{"generate", "x", "--backend-plugin", lying(), "--size", "16x16", "--steps", "2",
                         "--text-tokens", "32", "--quiet"} +
                   more,
               {{"DIF_TEST_LIE", lie}});
  }
  /// A run that asks for the latents of every step.
  Finished captured_with_lie(const std::string& lie) const {
    const std::string model = model_dir().string();
    return run("difflux2sample", {"--model-dir",      model,
                                  "--vae-checkpoint", model + "/vae/diffusion_pytorch_model.safetensors",
                                  "--prompt",         "x",
                                  "--output",         "a.png",
                                  "--report",         "a.json",
                                  "--capture-every",  "1",
                                  "--state-output",   "a.safetensors",
                                  "--backend-plugin", lying(),
                                  "--width",          "16",
                                  "--height",         "16",
                                  "--steps",          "2",
                                  "--text-tokens",    "32",
                                  "--quiet"},
               {{"DIF_TEST_LIE", lie}});
  }
};

TEST_F(Plugin, MissingOrDamaged) {
  refused("--backend-plugin missing.so", {"x", "--backend-plugin", "missing.so"}, 3,
          "there is no such backend file");
  std::ofstream(path("empty.so")) << "";
  std::ofstream(path("text.so")) << "not a library";
  for (const char* name : {"empty.so", "text.so"}) {
    const Finished finished = generate({"x", "--backend-plugin", name});
    EXPECT_EQ(finished.status, 3) << finished.err;
    EXPECT_NE(last_line(finished.err).find("not a usable backend"), std::string::npos) << finished.err;
  }
}

TEST_F(Plugin, ThatPreparesNothing) {
  judge("success without a program", with_lie("prepared-nothing"), 3, "backend lying prepared nothing");
  judge("success without a value", with_lie("value-nothing"), 3, "backend lying created no value");
}

TEST_F(Plugin, ThatBreaksTheRulesOfErrors) {
  judge("an error code that does not exist", with_lie("unknown-code"), 70, "failed with code 12345");
  const Finished endless = with_lie("endless-sentence");
  EXPECT_EQ(endless.status, 3) << endless.err;
  EXPECT_LT(endless.err.size(), 4096U);
  judge("an operation that does not exist", with_lie("absurd-operation"), 70, "backend lying");
}

TEST_F(Plugin, ThatCrashesTakesItsProcessAlongAndLeavesNoPicture) {
  const Finished finished = with_lie("crash", {"-o", "a.png"});
  EXPECT_EQ(finished.status, 128 + SIGSEGV) << finished.err;
  EXPECT_TRUE(files().empty());
}

TEST_F(Plugin, ThatLiesAboutSteps) {
  judge("a state of 2^64-1 bytes", captured_with_lie("state-too-large"), 3,
        "18446744073709551615 bytes of state after step 0");
  judge("a state that is not there", captured_with_lie("state-missing"), 3, "0 bytes of state after step 0");
  judge("step 2^32-1 of 2", with_lie("step-too-large"), 3, "step 4294967295 of a loop over 2 steps");
  judge("a step event of four bytes", with_lie("event-incomplete"), 3, "a step event that is incomplete");
  judge("a state that is not finite, but is when looked at", with_lie("never-finite"), 1,
        "but not when the program is run once more");
}

TEST_F(Plugin, ThatLiesInItsReportHurtsOnlyTheReport) {
  for (const char* lie : {"report-nothing", "report-numbers", "report-no-json", "report-nested"}) {
    const Finished finished = with_lie(lie, {"--json", "-o", "a.png"});
    EXPECT_EQ(finished.status, 0) << lie << "\n" << finished.err;
    const auto document = nlohmann::json::parse(finished.out, nullptr, false);
    ASSERT_TRUE(document.is_object()) << lie;
    EXPECT_EQ(document.at("programs").size(), 3U) << lie;
  }
}

}  // namespace
}  // namespace dif::test
