/// Same inputs, same bytes, whatever the thread count.
#include <gtest/gtest.h>

#include "tests/end_to_end/chain_runner.h"

namespace dif::test {
namespace {

Picture draw(unsigned threads) {
  const auto model = value_of(frontends::open_model(model_dir()));
  GenerationSettings settings;
  settings.prompt = "rocket on a pink background";
  settings.width = settings.height = 128;
  settings.steps = 3;
  settings.guidance = 4;
  auto pipeline = value_of(TextToImage::create(*model, test_context(threads), settings, {}));
  return value_of(pipeline->draw(5));
}

TEST(Determinism, OneTwoAndFourThreadsGiveTheSameBytes) {
  const Picture one = draw(1);
  for (const unsigned threads : {2U, 4U}) {
    const Picture other = draw(threads);
    EXPECT_EQ(one.latents.data, other.latents.data) << threads << " threads";
    EXPECT_EQ(one.image.pixels, other.image.pixels) << threads << " threads";
  }
}

TEST(Determinism, TheSeedDecidesThePicture) {
  const auto model = value_of(frontends::open_model(model_dir()));
  GenerationSettings settings;
  settings.prompt = "rocket";
  settings.width = settings.height = 128;
  settings.steps = 1;
  settings.guidance = 1;
  auto pipeline = value_of(TextToImage::create(*model, test_context(), settings, {}));
  const Picture first = value_of(pipeline->draw(1));
  EXPECT_EQ(first.latents.data, value_of(pipeline->draw(1)).latents.data);
  EXPECT_NE(first.latents.data, value_of(pipeline->draw(2)).latents.data);
}

}  // namespace
}  // namespace dif::test
