#include <gtest/gtest.h>

#include <ctime>

#include "text/test_tokenizers.h"

namespace dif::text {
namespace {

/// Seconds of this process's CPU time that encoding takes. CPU time, so that a busy machine changes little.
double seconds_to_encode(const std::string& text) {
  const std::clock_t start = std::clock();
  const auto ids = must(bundled_tokenizer().encode(text));
  EXPECT_FALSE(ids.empty());
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

std::string repeated(std::string_view piece, std::size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += piece;
  return text;
}

/// A word without an end whose merges are irregular.
std::string one_word(std::size_t bytes) {
  std::string text;
  unsigned state = 1;
  for (std::size_t i = 0; i < bytes; ++i) {
    state = state * 1664525U + 1013904223U;
    text.push_back("etaoinshrdlu"[(state >> 20) % 12]);
  }
  return text;
}

// Seen: 0.17 s for the irregular word, below 0.1 s for the rest (Xeon, one thread). A quadratic step anywhere
// would take minutes.
constexpr double kMaxSeconds = 1.0;
constexpr std::size_t kMegabyte = 1'000'000;

TEST(TokenizerSpeed, AMegabyteOfProseTakesLessThanASecond) {
  EXPECT_LT(seconds_to_encode(repeated("A photo of a red apple on a wooden table, soft light. ", kMegabyte)),
            kMaxSeconds);
  EXPECT_LT(seconds_to_encode(repeated("\u7ea2\u82f9\u679c\u3002", kMegabyte)), kMaxSeconds);
}

TEST(TokenizerSpeed, AWordOfAMegabyteTakesLessThanASecond) {
  EXPECT_LT(seconds_to_encode(one_word(kMegabyte)), kMaxSeconds);
  EXPECT_LT(seconds_to_encode(repeated("a", kMegabyte)), kMaxSeconds);
  EXPECT_LT(seconds_to_encode(repeated("!", kMegabyte)), kMaxSeconds);
}

TEST(TokenizerSpeed, WhiteSpaceOfAMegabyteTakesLessThanASecond) {
  EXPECT_LT(seconds_to_encode(repeated(" ", kMegabyte) + "x"), kMaxSeconds);
  EXPECT_LT(seconds_to_encode(repeated("\n", kMegabyte)), kMaxSeconds);
  EXPECT_LT(seconds_to_encode(repeated(" \n", kMegabyte)), kMaxSeconds);
  EXPECT_LT(seconds_to_encode(repeated("1", kMegabyte)), kMaxSeconds);
}

TEST(TokenizerSpeed, UnorderedMarksTakeLessThanASecond) {
  EXPECT_LT(seconds_to_encode("a" + repeated("\u0301", kMegabyte / 2) + repeated("\u0323", kMegabyte / 2)),
            kMaxSeconds);
}

TEST(TokenizerSpeed, AddedTokensAndTheirBeginningsTakeLessThanASecond) {
  EXPECT_LT(seconds_to_encode(repeated("<|im_end|>", kMegabyte)), kMaxSeconds);
  EXPECT_LT(seconds_to_encode(repeated("<|im_", kMegabyte)), kMaxSeconds);
}

}  // namespace
}  // namespace dif::text
