/// A decode that does not fit under a cap, on the CPU.
#include <gtest/gtest.h>

#include "tests/end_to_end/chain_runner.h"

namespace dif::test {
namespace {

std::shared_ptr<runtime::Context> context_with_cap(std::uint64_t bytes) {
  runtime::ContextOptions options;
  options.memory_cap_bytes = bytes;
  return value_of(
      runtime::Context::create(value_of(runtime::BackendLibrary::load_by_name("cpu")), std::move(options)));
}

TEST(DecodeUnderACap, GoesInSlabsThatFitAndGiveTheSamePicture) {
  const auto model = value_of(frontends::open_model(model_dir()));
  GenerationSettings settings;
  settings.prompt = "a red apple";
  settings.width = settings.height = 128;
  settings.steps = 1;
  settings.text_tokens = 24;
  const auto whole = value_of(TextToImage::create(*model, context_with_cap(0), settings, {}));
  const std::vector<std::uint8_t> expected = value_of(whole->draw(5)).image.pixels;
  const SharedMemory memory = value_of(whole->memory());
  EXPECT_EQ(whole->decoder().way(), DecodeWay::kWhole);
  const std::uint64_t cap = memory.device_peak_bytes - memory.arena_bytes / 3;
  const auto slabs = value_of(TextToImage::create(*model, context_with_cap(cap), settings, {}));
  EXPECT_EQ(slabs->decoder().way(), DecodeWay::kSlabs);
  EXPECT_NE(slabs->decoder().reason().find("exceed the memory cap"), std::string::npos)
      << slabs->decoder().reason();
  const std::vector<std::uint8_t> pixels = value_of(slabs->draw(5)).image.pixels;
  EXPECT_LE(value_of(slabs->memory()).device_peak_bytes, cap);
  ASSERT_EQ(pixels.size(), expected.size());
  std::size_t count = 0;
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    EXPECT_NEAR(pixels[i], expected[i], 1);
    count += pixels[i] != expected[i];
  }
  EXPECT_LE(count, pixels.size() / 200);
}

}  // namespace
}  // namespace dif::test
