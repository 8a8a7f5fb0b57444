#include "pipelines/generation_record.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

namespace dif {
namespace {

GenerationRecord full_record() {
  GenerationRecord record;
  record.prompt = "a \"red\" apple,\non: a table \xF0\x9F\x8D\x8E";
  record.negative_prompt = "blurry,\nlow contrast";
  record.seed = std::numeric_limits<std::uint64_t>::max();
  record.steps = 20;
  record.guidance = 3.7;
  record.width = 128;
  record.height = 96;
  record.batch_index = 2;
  record.batch_count = 4;
  record.text_tokens = 77;
  record.rng = "torch-cuda";
  record.dtype = "bf16";
  record.noise_dtype = "f16";
  record.passes = "dead_code,simplify";
  record.backend = "cpu";
  record.device = "AMD EPYC, 2 threads";
  record.model_name = "emoji-klein: \"mine\", v2";
  record.model_digest = std::string(32, 'a') + std::string(32, '7');
  record.programs = {{"encode", std::string(64, '1')}, {"step", std::string(64, 'f')}};
  record.version = "0.1.0";
  return record;
}

std::string text_of(Result<std::string> result) {
  EXPECT_TRUE(result) << result.error().message;
  return result ? *result : std::string();
}

std::string error_of(const Result<GenerationRecord>& result) {
  EXPECT_FALSE(result);
  if (result) return "";
  EXPECT_EQ(result.error().code, ErrorCode::kInvalidInput);
  return result.error().message;
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

TEST(GenerationJson, ReadsBackEveryField) {
  const auto record = full_record();
  const auto read = parse_generation_json(text_of(generation_json(record)), "apple.png");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, record);
}

TEST(GenerationJson, KeepsHowAPictureWasTiled) {
  GenerationRecord record = full_record();
  EXPECT_EQ(text_of(generation_json(record)).find("tile"), std::string::npos);
  record.decode = "tiles";
  record.tile_size = 256;
  record.tile_overlap = 32;
  const auto read = parse_generation_json(text_of(generation_json(record)), "a.png");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, record);
  record.tile_size = 0;
  EXPECT_FALSE(generation_json(record));
}

TEST(GenerationJson, KeepsWhatSlabsWereMadeFor) {
  GenerationRecord record = full_record();
  EXPECT_EQ(text_of(generation_json(record)).find("slab"), std::string::npos);
  record.decode = "slabs";
  record.slab_bytes = std::int64_t{3} << 30;
  const auto read = parse_generation_json(text_of(generation_json(record)), "a.png");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, record);
}

TEST(GenerationJson, RefusesAWayOfDecodingThatItCannotRepeat) {
  GenerationRecord record = full_record();
  record.decode = "tiles";
  const std::string good = text_of(generation_json(record));
  const std::tuple<const char*, const char*, const char*> cases[] = {
      {"\"decode\": \"tiles\"", "\"decode\": \"bogus\"",
       "decode is \"bogus\", expected auto, whole, slabs or tiles"},
      {"\"decode\": \"tiles\"", "\"decode\": \"\"", "decode is \"\""},
      {"\"tile_size\": 512", "\"tile_side\": 512", "tile_size"},
      {"\"tile_overlap\": 64", "\"tile_over\": 64", "tile_overlap"},
      {"\"tile_overlap\": 64", "\"tile_overlap\": 64, \"slab_bytes\": -1", "slab_bytes"},
  };
  for (const auto& [from, to, key] : cases) {
    const auto refused = parse_generation_json(replaced(good, from, to), "apple.png");
    ASSERT_FALSE(refused) << to;
    EXPECT_NE(refused.error().message.find("apple.png"), std::string::npos) << refused.error().message;
    EXPECT_NE(refused.error().message.find(key), std::string::npos) << refused.error().message;
  }
}

TEST(GenerationJson, CarriesSchemaKindVersionAndProvenance) {
  const std::string text = text_of(generation_json(full_record()));
  for (const char* part : {"\"schema\": \"diffusion-compiler-telemetry\"", "\"kind\": \"generation\"",
                           "\"version\": 1,", "\"provenance\": {"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part;
  }
}

TEST(GenerationJson, IgnoresUnknownKeys) {
  const std::string text =
      replaced(text_of(generation_json(full_record())), "\"steps\"", "\"mood\": [1, {}], \"steps\"");
  EXPECT_TRUE(parse_generation_json(text, "apple.png"));
}

TEST(GenerationJson, RefusesDamageAndNamesTheKey) {
  const std::string good = text_of(generation_json(full_record()));
  const std::tuple<const char*, const char*, const char*> cases[] = {
      {"diffusion-compiler-telemetry", "something-else", "schema"},
      {"\"generation\"", "\"benchmark\"", "kind"},
      {"\"version\": 1,", "\"version\": 2,", "version"},
      {"\"steps\": 20", "\"steps\": 0", "steps"},
      {"\"steps\": 20", "\"steps\": 20.5", "steps"},
      {"\"steps\": 20", "\"steps\": \"20\"", "steps"},
      {"\"steps\": 20,", "", "steps"},
      {"\"seed\": 18446744073709551615", "\"seed\": -1", "seed"},
      {"\"seed\": 18446744073709551615", "\"seed\": 18446744073709551616", "18446744073709551616"},
      {"\"seed\": 18446744073709551615", "\"seed\": null", "seed"},
      {"\"guidance\": 3.7", "\"guidance\": 1e300", "guidance"},
      {"\"width\": 128", "\"width\": 70000", "width"},
      {"\"height\": 96", "\"height\": -96", "height"},
      {"\"batch_index\": 2", "\"batch_index\": 4", "batch_index"},
      {"\"batch_count\": 4", "\"batch_count\": 0", "batch_count"},
      {"\"batch_count\": 4", "\"batch_count\": -9223372036854775808", "batch_count"},
      {"\"text_tokens\": 77", "\"text_tokens\": 0", "text_tokens"},
      {"\"dtype\": \"bf16\"", "\"dtype\": \"i32\"", "dtype"},
      {"\"noise_dtype\": \"f16\"", "\"noise_dtype\": \"half\"", "noise_dtype"},
      {"\"rng\": \"torch-cuda\"", "\"rng\": \"\"", "rng"},
      {"\"digest\": \"aaaa", "\"digest\": \"AAAA", "digest"},
      {"\"fingerprint\": \"1111", "\"fingerprint\": \"", "fingerprint"},
      {"\"prompt\": \"a ", "\"prompt\": \"a\\u0000 ", "prompt"},
      {"\"request\"", "\"requests\"", "request"},
  };
  for (const auto& [from, to, named] : cases) {
    const std::string message = error_of(parse_generation_json(replaced(good, from, to), "apple.png"));
    EXPECT_NE(message.find("apple.png"), std::string::npos) << message;
    EXPECT_NE(message.find(named), std::string::npos) << from << " -> " << to << ": " << message;
  }
}

TEST(GenerationJson, RefusesEveryTruncation) {
  const std::string good = text_of(generation_json(full_record()));
  for (std::size_t size = 0; size + 2 < good.size(); ++size) {
    EXPECT_FALSE(parse_generation_json(std::string_view(good).substr(0, size), "apple.png")) << size;
  }
}

TEST(GenerationJson, AWriterRefusesWhatAReaderWould) {
  auto record = full_record();
  record.prompt = "not UTF-8: \xff";
  EXPECT_FALSE(generation_json(record));
  EXPECT_FALSE(parameters_text(record));
  EXPECT_FALSE(png_texts(record));
  record = full_record();
  record.guidance = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(generation_json(record));
}

TEST(ParametersText, HasTheFormThatOtherReadersExpect) {
  GenerationRecord record;
  record.prompt = "a red apple";
  record.seed = 42;
  record.steps = 20;
  record.guidance = 4;
  record.width = 128;
  record.height = 128;
  record.model_name = "emoji-klein";
  record.model_digest = "0123456789abcdef" + std::string(48, '0');
  record.version = "0.1.0";
  EXPECT_EQ(text_of(parameters_text(record)),
            "a red apple\n"
            "Steps: 20, Sampler: Euler, CFG scale: 4, Seed: 42, Size: 128x128, Model hash: 0123456789, "
            "Model: emoji-klein, RNG: CPU, Text tokens: 512, Dtype: f32, VAE dtype: f32, State dtype: f32, "
            "Noise dtype: f32, Version: diffusion-compiler 0.1.0");
  record.negative_prompt = "blurry";
  record.model_name = "a, b";
  const std::string text = text_of(parameters_text(record));
  EXPECT_EQ(text.find("a red apple\nNegative prompt: blurry\nSteps: 20, "), 0U) << text;
  EXPECT_NE(text.find(", Model: \"a, b\", "), std::string::npos) << text;
}

TEST(ParametersText, ReadsBackAllButProgramsAndTheWholeDigest) {
  auto record = full_record();
  const auto read = parse_parameters_text(text_of(parameters_text(record)), "apple.png");
  ASSERT_TRUE(read) << read.error().message;
  record.programs.clear();
  record.model_digest.resize(10);
  EXPECT_EQ(*read, record);
}

TEST(ParametersText, ReadsBackEmptyPrompts) {
  auto record = full_record();
  record.prompt.clear();
  for (const char* negative : {"", "blurry"}) {
    record.negative_prompt = negative;
    const auto read = parse_parameters_text(text_of(parameters_text(record)), "apple.png");
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(read->prompt, "");
    EXPECT_EQ(read->negative_prompt, negative);
  }
}

TEST(ParametersText, ReadsTheTextOfAnotherProgram) {
  const auto read = parse_parameters_text(
      "masterpiece, (cat:1.2)\r\nsitting\r\nNegative prompt: bad hands,\r\nworst quality\r\n"
      "Steps: 28, Sampler: DPM++ 2M, Schedule type: Karras, CFG scale: 7.5, Seed: 1234567890, Size: 512x768, "
      "Model hash: 6ce0161689, Model: v1-5, Lora hashes: \"a: 1, b: \\\"2\\\"\", Version: v1.10.1\r\n",
      "cat.png");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->prompt, "masterpiece, (cat:1.2)\r\nsitting");
  EXPECT_EQ(read->negative_prompt, "bad hands,\r\nworst quality");
  EXPECT_EQ(read->steps, 28);
  EXPECT_EQ(read->sampler, "DPM++ 2M");
  EXPECT_EQ(read->guidance, 7.5);
  EXPECT_EQ(read->seed, 1234567890U);
  EXPECT_EQ(read->width, 512);
  EXPECT_EQ(read->height, 768);
  EXPECT_EQ(read->model_digest, "6ce0161689");
  EXPECT_EQ(read->version, "v1.10.1");
}

TEST(ParametersText, RefusesWhatItCannotReadAndNamesIt) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "Steps"},
      {"just a prompt", "settings"},
      {"a prompt: with a colon", "Steps"},
      {"x\nSteps: 20, CFG scale: 4, Size: 8x8", "Seed"},
      {"x\nSteps: 20, CFG scale: 4, Seed: 1", "Size"},
      {"x\nSteps: 20, Seed: 1, Size: 8x8", "CFG scale"},
      {"x\nSteps: twenty, CFG scale: 4, Seed: 1, Size: 8x8", "Steps"},
      {"x\nSteps: 0, CFG scale: 4, Seed: 1, Size: 8x8", "steps"},
      {"x\nSteps: 20, CFG scale: nan, Seed: 1, Size: 8x8", "guidance"},
      {"x\nSteps: 20, CFG scale: 4, Seed: -1, Size: 8x8", "Seed"},
      {"x\nSteps: 20, CFG scale: 4, Seed: 18446744073709551616, Size: 8x8", "Seed"},
      {"x\nSteps: 20, CFG scale: 4, Seed: 1, Size: 8", "Size"},
      {"x\nSteps: 20, CFG scale: 4, Seed: 1, Size: 8x", "Size"},
      {"x\nSteps: 20, CFG scale: 4, Seed: 1, Size: x8", "Size"},
      {"x\nSteps: 20, CFG scale: 4, Seed: 1, Size: 8x8x8", "Size"},
      {"x\nSteps: 20, CFG scale: 4, Seed: 1, Size: 99999x8", "width"},
      {"x\nSteps: 20, Steps: 21, CFG scale: 4, Seed: 1, Size: 8x8", "twice"},
      {"x\nSteps: 20, CFG scale: 4, Seed: 1, Size: 8x8, Model: \"a", "settings"},
      {"x\nSteps: 20, CFG scale: 4, Seed: 1, Size: 8x8, Model: \"a\\q\"", "settings"},
      {"x\nSteps: 20, CFG scale: 4, Seed: 1, Size: 8x8, Model: \"a\" b", "settings"},
      {"x\nSteps: 20, CFG scale: 4, Seed: 1, Size: 8x8, Dtype: i8", "dtype"},
      {"\xff\nSteps: 20, CFG scale: 4, Seed: 1, Size: 8x8", "UTF-8"},
  };
  for (const auto& [text, named] : cases) {
    const std::string message = error_of(parse_parameters_text(text, "cat.png"));
    EXPECT_EQ(message.find("cat.png"), 0U) << message;
    EXPECT_NE(message.find(named), std::string::npos) << text << ": " << message;
  }
}

TEST(PictureRecord, OurDocumentComesBeforeTheParametersText) {
  const auto record = full_record();
  auto texts = png_texts(record);
  ASSERT_TRUE(texts) << texts.error().message;
  ASSERT_EQ(texts->size(), 2U);
  const auto read = find_generation_record(*texts, "apple.png");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, record);

  texts->pop_back();
  const auto less = find_generation_record(*texts, "apple.png");
  ASSERT_TRUE(less) << less.error().message;
  EXPECT_EQ(less->prompt, record.prompt);
  EXPECT_TRUE(less->programs.empty());
}

TEST(PictureRecord, ADamagedDocumentIsAnErrorNotAFallback) {
  auto texts = png_texts(full_record());
  ASSERT_TRUE(texts) << texts.error().message;
  texts->back().text.pop_back();
  texts->back().text.pop_back();
  EXPECT_NE(error_of(find_generation_record(*texts, "apple.png")).find("apple.png"), std::string::npos);
}

TEST(PictureRecord, TwoRecordsOfAKindAreRefused) {
  auto texts = png_texts(full_record());
  ASSERT_TRUE(texts) << texts.error().message;
  texts->push_back(texts->back());
  EXPECT_NE(error_of(find_generation_record(*texts, "apple.png")).find("two"), std::string::npos);
}

TEST(PictureRecord, APictureWithoutARecordIsNotFound) {
  const std::vector<io::PngText> texts = {{"Author", "somebody"}};
  const auto read = find_generation_record(texts, "apple.png");
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace dif
