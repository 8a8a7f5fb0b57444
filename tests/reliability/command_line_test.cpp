/// Item by item, what an impossible request prints. No request here may end in a crash, a hang or a file.
#include <chrono>
#include <random>

#include "io/png.h"
#include "tests/reliability/reliability_test.h"
#include "text/prompt.h"
#include "text/tokenizer.h"

namespace dif::test {
namespace {

class CommandLine : public ReliabilityTest {
 protected:
  CommandLine() : ReliabilityTest("Command line") {}
};

class Prompt : public ReliabilityTest {
 protected:
  Prompt() : ReliabilityTest("Prompt") {}
};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

TEST_F(CommandLine, StepsAreAWholeNumberInRange) {
  for (const char* steps :
       {"0", "-1", "10001", "2147483648", "18446744073709551616", "abc", "1.5", "1e3", ""})
    refused(std::string("--steps ") + (*steps == '\0' ? "\"\"" : steps), {"x", "--steps", steps}, 2,
            "expected 1 to 10000");
}

TEST_F(CommandLine, OneStepIsLegalAndALeadingZeroIsNoOctal) {
  const Arguments small = {"--size", "16x16", "--text-tokens", "32", "--backend", "reference", "--quiet"};
  EXPECT_EQ(generate(Arguments{"x", "--steps", "1", "-o", "one.png"} + small).status, 0);
  const Finished ten = generate(Arguments{"x", "--steps", "010", "--json", "-o", "ten.png"} + small);
  EXPECT_NE(ten.out.find("\"steps\": 10"), std::string::npos) << ten.out << ten.err;
}

TEST_F(CommandLine, GuidanceIsANumberInRange) {
  for (const char* guidance : {"nan", "inf", "-inf", "-1", "-0.001", "1000.5", "1e30", "1e400", "abc"})
    refused(std::string("--guidance ") + guidance, {"x", "--guidance", guidance}, 2,
            std::string("--guidance ") + guidance + ": expected a number from 0 to 1000");
}

TEST_F(CommandLine, GuidanceThatRoundsToOneIsOneEvaluation) {
  for (const char* guidance : {"1", "1.000000001", "0.999999999", "0"}) {
    allowed(std::string("--guidance ") + guidance,
            Arguments{"x", "--guidance", guidance, "-o", "a.png"} + kTiny, "one evaluation a step");
    const Finished json =
        generate(Arguments{"x", "--guidance", guidance, "-o", "a.png", "--json", "--no-metadata"} + kTiny);
    EXPECT_NE(json.out.find("\"guided\": false"), std::string::npos) << json.out;
  }
  const Finished two = generate(Arguments{"x", "--guidance", "1.5", "-o", "b.png", "--json"} + kTiny);
  EXPECT_NE(two.out.find("\"guided\": true"), std::string::npos) << two.out;
}

TEST_F(CommandLine, SeedsAreWholeNumbers) {
  for (const char* seed : {"-2", "18446744073709551616", "abc"})
    refused(std::string("--seed ") + seed, {"x", "--seed", seed}, 2,
            "expected a whole number from 0 to 2^64-1");
  allowed("--seed 4294967296", Arguments{"x", "--seed", "4294967296"} + kTiny, "only its low 32 bits count");
  const Finished drawn = generate(Arguments{"x", "--seed", "-1", "-o", "drawn.png"} + kTiny);
  ASSERT_EQ(drawn.err.rfind("seed ", 0), 0U) << drawn.err;
  const auto texts = io::read_png_text(path("drawn.png"));
  ASSERT_TRUE(texts) << texts.error().message;
  const std::string seed = drawn.err.substr(5, drawn.err.find('\n') - 5);
  bool embedded = false;
  for (const io::PngText& text : *texts)
    embedded |= text.text.find("Seed: " + seed + ",") != std::string::npos;
  EXPECT_TRUE(embedded) << seed;
}

TEST_F(CommandLine, ThreadsAreInRange) {
  for (const char* threads : {"-1", "1000000", "abc", "9223372036854775808"})
    refused(std::string("--threads ") + threads, {"x", "--threads", threads}, 2, "expected 0 to 1024");
  EXPECT_EQ(generate(Arguments{"x", "--threads", "0"} + kTiny).status, 0);
}

TEST_F(CommandLine, SizesAreOnTheGridOrFitted) {
  for (const char* size : {"0x0", "-16x16", "16x-16", "100000x16", "9223372036854775807x16"})
    refused(std::string("--size ") + size, {"x", "--size", size}, 2,
            "expected a multiple of 16 from 16 to 8192");
  for (const char* size : {"abc", "32", "32x", "99999999999999999999x16"})
    refused(std::string("--size ") + size, {"x", "--size", size}, 2, "expected WIDTHxHEIGHT");
  refused("--size 33x32", {"x", "--size", "33x32"}, 2, "the nearest are 32 and 48");
  refused("--size 33x32 --fit stretch", {"x", "--size", "33x32", "--fit", "stretch"}, 2, "stretch not in");
}

TEST_F(CommandLine, FitRoundsOrCutsOut) {
  const Arguments rest = {"--steps", "1", "--text-tokens", "32", "--backend", "reference", "--quiet"};
  allowed("--size 20x33 --fit round",
          Arguments{"x", "--size", "20x33", "--fit", "round", "-o", "round.png"} + rest,
          "20x33 is drawn as 16x32");
  const auto rounded = io::read_png(path("round.png"));
  ASSERT_TRUE(rounded) << rounded.error().message;
  EXPECT_EQ(rounded->width, 16U);
  EXPECT_EQ(rounded->height, 32U);

  ASSERT_EQ(generate(Arguments{"x", "--size", "20x30", "--fit", "pad", "-o", "pad.png"} + rest).status, 0);
  ASSERT_EQ(generate(Arguments{"x", "--size", "32x32", "-o", "whole.png"} + rest).status, 0);
  const auto padded = io::read_png(path("pad.png"));
  const auto whole = io::read_png(path("whole.png"));
  ASSERT_TRUE(padded && whole);
  EXPECT_EQ(padded->width, 20U);
  EXPECT_EQ(padded->height, 30U);
  const auto row = [](const io::Image& image, std::size_t y, std::size_t x, std::size_t count) {
    const auto* start = image.pixels.data() + (y * image.width + x) * 3;
    return std::vector<std::uint8_t>(start, start + count * 3);
  };
  for (std::size_t y = 0; y < 30; ++y) EXPECT_EQ(row(*padded, y, 0, 20), row(*whole, y + 1, 6, 20)) << y;

  ASSERT_EQ(generate({"--from", "pad.png", "-o", "again.png", "--backend", "reference", "--quiet"}).status,
            0);
  EXPECT_EQ(read_text(path("pad.png")), read_text(path("again.png")));
}

TEST_F(CommandLine, EnormousPicturesAreRefusedBeforeMemoryIsTaken) {
  const auto start = std::chrono::steady_clock::now();
  judge("--size 65536x65536", generate({"x", "--size", "65536x65536"}), 2, "from 16 to 8192");
  EXPECT_LT(seconds_since(start), 10);
  const std::string dif = (bin_dir() / "dif").string();
  const Finished largest = run(
      "/bin/sh", {"-c", "ulimit -v 3000000; exec \"$0\" \"$@\"", dif, "generate", "x", "--size", "8192x8192",
                  "--text-tokens", "32", "--steps", "1", "--backend", "reference", "--quiet"});
  judge("--size 8192x8192 where 3 GB may be taken", largest, 3, "MiB are available; choose a smaller size");
}

TEST_F(CommandLine, MemoryCapsAreKept) {
  refused("--memory-cap-mib 1", Arguments{"x", "--memory-cap-mib", "1"} + kTiny, 3, "memory cap");
  refused("--memory-cap-mib -1", {"x", "--memory-cap-mib", "-1"}, 2, "--memory-cap-mib -1: expected 0 to");
}

// --- prompts
// ------------------------------------------------------------------------------------------------

TEST_F(Prompt, EmptyIsLegal) {
  EXPECT_EQ(generate(Arguments{"", "-o", "empty.png"} + kTiny).status, 0);
  EXPECT_EQ(files(), std::set<std::string>{"empty.png"});
}

TEST_F(Prompt, NoneIsAnError) {
  refused("no prompt", {"--seed", "3"}, 2, "a prompt is needed");
}

TEST_F(Prompt, TooLongIsAWarningOrWithStrictPromptAnError) {
  std::string prompt;
  for (int i = 0; i < 100; ++i) prompt += "red apple ";
  allowed("longer than --text-tokens", Arguments{prompt, "-o", "a.png"} + kTiny, "32 fit: the last ");
  std::filesystem::remove(path("a.png"));
  refused("longer than --text-tokens, --strict-prompt", Arguments{prompt, "--strict-prompt"} + kTiny, 2,
          "32 fit: the last ");
  refused("negative prompt longer than --text-tokens, --strict-prompt",
          Arguments{"x", "--negative-prompt", prompt, "--strict-prompt"} + kTiny, 2,
          "the negative prompt has ");
  EXPECT_EQ(generate(Arguments{"red apple", "--strict-prompt", "-o", "fits.png"} + kTiny).status, 0);
}

TEST_F(Prompt, InvalidUtf8IsRefusedWithItsOffset) {
  refused("byte 0xff at offset 4", Arguments{"red \xff apple"} + kTiny, 2,
          "byte 0xff at offset 4 is not UTF-8");
  refused("a surrogate", Arguments{"\xed\xa0\x80"} + kTiny, 2, "offset 0");
  refused("cut in a character", Arguments{"red \xe2\x82"} + kTiny, 2, "offset 4");
  refused("invalid UTF-8 in the negative prompt", Arguments{"x", "--negative-prompt", "fog \xc0\xaf"} + kTiny,
          2, "offset 4 is not UTF-8");
}

TEST_F(Prompt, OneMegabyteTakesLessThanASecond) {
  const auto tokenizer = text::load_tokenizer(model_dir() / "tokenizer");
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  std::mt19937 random(7);
  std::string words, letters(1 << 20, 'a'), noise;
  while (words.size() < 1 << 20) words += "red apple, ";
  while (noise.size() < 1 << 20) noise += static_cast<char>(' ' + random() % 95);
  for (const std::string* prompt : {&words, &letters, &noise}) {
    double best = 1e9;
    for (int i = 0; i < 3; ++i) {
      const auto start = std::chrono::steady_clock::now();
      const auto encoded = text::encode_prompt(*tokenizer, *prompt, text::kFlux2Prompt);
      best = std::min(best, seconds_since(start));
      ASSERT_TRUE(encoded) << encoded.error().message;
      EXPECT_GT(encoded->n_dropped, 0);
      EXPECT_EQ(encoded->n_kept, 512);
    }
    EXPECT_LT(best, 1.0);
  }
  EXPECT_FALSE(text::encode_prompt(*tokenizer, std::string(1 << 20, '\xff'), text::kFlux2Prompt));
}

TEST_F(Prompt, NulIsAByteLikeAnyOther) {
  const auto tokenizer = text::load_tokenizer(model_dir() / "tokenizer");
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  const auto with = text::encode_prompt(*tokenizer, std::string("red\0apple", 9), text::kFlux2Prompt);
  const auto without = text::encode_prompt(*tokenizer, "red", text::kFlux2Prompt);
  ASSERT_TRUE(with && without);
  EXPECT_NE(with->ids, without->ids) << "the text behind a NUL counts";
}

}  // namespace
}  // namespace dif::test
