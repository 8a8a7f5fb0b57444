/// A decode that does not fit under a cap, on the CPU.
#include <gtest/gtest.h>

#include "pipelines/chain_builder.h"
#include "pipelines/dry_run.h"
#include "tests/end_to_end/chain_runner.h"

namespace dif::test {
namespace {

std::shared_ptr<runtime::Context> context_with_cap(std::uint64_t bytes) {
  runtime::ContextOptions options;
  options.memory_cap_bytes = bytes;
  return value_of(
      runtime::Context::create(value_of(runtime::BackendLibrary::load_by_name("cpu")), std::move(options)));
}

DryRun plan(const frontends::Model& model, const std::shared_ptr<runtime::Context>& context,
            const GenerationSettings& settings) {
  io::CacheStore nothing{{}};
  return value_of(dry_run(model, context, settings, 1, nothing, {}));
}

/// A decode whole needs 38 MB, the denoiser 15.
GenerationSettings settings_of(const DecodeOptions& decode) {
  GenerationSettings settings;
  settings.prompt = "a red apple";
  settings.width = settings.height = 256;
  settings.steps = 1;
  settings.text_tokens = 24;
  settings.decode = decode;
  return settings;
}

std::string refusal_of(const GenerationSettings& settings, std::uint64_t cap) {
  const auto model = value_of(frontends::open_model(model_dir()));
  const auto refused = TextToImage::create(*model, context_with_cap(cap), settings, {});
  return refused ? "" : refused.error().message;
}

#define EXPECT_CONTAINS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST(DecodeUnderACap, ARefusalSaysWhichWayNeedsLess) {
  constexpr std::uint64_t kCap = std::uint64_t{36} << 20;
  EXPECT_CONTAINS(refusal_of(settings_of({DecodeWay::kWhole}), kCap), "--decode slabs needs less");
  EXPECT_CONTAINS(refusal_of(settings_of({DecodeWay::kTiles}), kCap), "a smaller --tile-size");
}

TEST(DecodeInHostMemory, IsRefusedBeforeItIsPreparedWhereItsWayDoesNotFit) {
  const auto settings_within = [](const DecodeOptions& decode) {
    GenerationSettings settings = settings_of(decode);
    settings.available_bytes = std::uint64_t{26} << 20;
    return settings;
  };
  for (const DecodeWay way : {DecodeWay::kAuto, DecodeWay::kWhole, DecodeWay::kSlabs}) {
    const std::string refused = refusal_of(settings_within({way, 64, 16}), 0);
    EXPECT_CONTAINS(refused, way == DecodeWay::kAuto
                                 ? "of memory, 26 MiB"
                                 : fmt::format("of memory with --decode {}, 26 MiB", decode_way_name(way)));
    EXPECT_CONTAINS(refused, "--decode tiles needs");
  }
  EXPECT_CONTAINS(refusal_of(settings_within({DecodeWay::kTiles, 256, 64}), 0), "a smaller --tile-size");
  const auto model = value_of(frontends::open_model(model_dir()));
  const auto decode_of = [&](const DecodeOptions& decode) {
    return plan(*model, context_with_cap(0), settings_within(decode));
  };
  EXPECT_EQ(decode_of({DecodeWay::kTiles, 64, 16}).refusal, "");
  EXPECT_CONTAINS(decode_of({DecodeWay::kAuto, 64, 16}).refusal, "--decode tiles needs");
}

TEST(DecodeInTiles, IsRefusedWithTheRequest) {
  const auto model = value_of(frontends::open_model(model_dir()));
  const auto refused = build_chain(*model, settings_of({DecodeWay::kTiles, 17, 0}));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidInput);
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
  const DryRun planned = plan(*model, context_with_cap(cap), settings);
  EXPECT_EQ(planned.decode.substr(0, 15), "decode in slabs") << planned.decode;
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
