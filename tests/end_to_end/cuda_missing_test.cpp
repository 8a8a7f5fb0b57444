/// What a user of the CUDA backend reads on a machine without a GPU.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/tools/tool_test.h"

namespace dif::test {
namespace {

class CudaMissing : public ToolTest {
 protected:
  const Running::Environment no_driver_ = {{"DIF_CUDA_DRIVER_PATH", path("libcuda.so.1")}};
};

TEST_F(CudaMissing, ToolsEndWithOneSentenceAndStatus3) {
  const std::string sentence = "NVIDIA's driver cannot be opened (" + path("libcuda.so.1");
  fail("dif", {"generate", "a red apple", "-o", "a.png", "--quiet", "--backend", "cuda"}, 3, sentence,
       no_driver_);
  fail("difprobe", {"--backend", "cuda"}, 3, sentence, no_driver_);
  EXPECT_TRUE(files().empty()) << "no picture";
}

TEST_F(CudaMissing, DoctorNotesItAndAutoTakesAnotherBackend) {
  const std::string screen = succeed("dif", {"doctor"}, no_driver_);
  EXPECT_NE(screen.find("backend cuda       note     NVIDIA's driver cannot be opened"), std::string::npos)
      << screen;
  const auto document =
      nlohmann::json::parse(succeed("dif",
                                    {"generate", "a red apple", "-o", "a.png", "--size", "16x16", "--steps",
                                     "1", "--text-tokens", "32", "--quiet", "--json"},
                                    no_driver_));
  EXPECT_NE(document.at("backend").at("name"), "cuda");
  EXPECT_NE(document.at("backend").at("choice").get<std::string>().find("NVIDIA's driver cannot be opened"),
            std::string::npos);
}

}  // namespace
}  // namespace dif::test
