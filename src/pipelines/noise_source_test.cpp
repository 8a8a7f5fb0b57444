#include "pipelines/noise_source.h"

#include <gtest/gtest.h>

#include "pipelines/noise.h"
#include "pipelines/noise_philox.h"

namespace dif {
namespace {

constexpr const char* kProbe =
    R"({"devices": [{"name": "a"}, {"multiprocessors": 132, "threads_of_multiprocessor": 2048}]})";

std::string refusal(const std::string& text, const std::string& probe = "", int device = 0) {
  const auto source = parse_noise_source(text, probe, device);
  return source ? "accepted as " + source->text() : source.error().message;
}

TEST(NoiseSource, ItsTextReadsBack) {
  for (const std::string text : {"torch-cpu", "torch-cuda:132x2048", "torch-cuda:1x256"}) {
    const auto source = parse_noise_source(text, "", 0);
    ASSERT_TRUE(source) << source.error().message;
    EXPECT_EQ(source->text(), text);
  }
}

TEST(NoiseSource, TorchCudaAloneIsTheCardOfTheBackend) {
  const auto source = parse_noise_source("torch-cuda", kProbe, 1);
  ASSERT_TRUE(source) << source.error().message;
  EXPECT_EQ(source->text(), "torch-cuda:132x2048");
}

TEST(NoiseSource, TorchCudaWithoutACardSaysHowToNameOne) {
  for (const std::string probe : {"", "[]", "{", R"({"devices": 3})", R"({"devices": []})"})
    EXPECT_NE(refusal("torch-cuda", probe).find("torch-cuda:132x2048"), std::string::npos) << probe;
  EXPECT_NE(refusal("torch-cuda", kProbe, 0).find("runs on none"), std::string::npos);
  EXPECT_NE(refusal("torch-cuda", kProbe, -1).find("runs on none"), std::string::npos);
}

TEST(NoiseSource, OtherWordsAndCardsThatDoNotExistAreRefused) {
  for (const std::string text : {"", "cpu", "torch", "torch-cuda:", "torch-cuda:132", "torch-cuda:132x",
                                 "torch-cuda:0x2048", "torch-cuda:132x128", "torch-cuda:132x2048 ",
                                 "torch-cuda:-1x2048", "torch-cuda:99999999999x2048", "torch-cuda132x2048"})
    EXPECT_NE(refusal(text).find("names no source of noise"), std::string::npos)
        << text << ": " << refusal(text);
}

TEST(NoiseSource, DrawsWhatItsGeneratorDraws) {
  const Shape shape{1, 3, 5, 7};
  std::vector<float> cpu(105), cuda(105);
  TorchCpuGenerator(7).normal_f32(cpu);
  TorchCudaGenerator(7, 2, 512).normal_f32(cuda);
  EXPECT_EQ(draw_noise({}, 7, DType::kF32, shape)->to_f32(), cpu);
  EXPECT_EQ(draw_noise({2, 512}, 7, DType::kF32, shape)->to_f32(), cuda);
  const auto rounded = draw_noise({2, 512}, 7, DType::kBF16, shape);
  ASSERT_FALSE(rounded);
  EXPECT_NE(rounded.error().message.find("drawn in f32"), std::string::npos) << rounded.error().message;
}

}  // namespace
}  // namespace dif
