#include "text/bpe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "text/byte_alphabet.h"
#include "text/test_tokenizers.h"

namespace dif::text {
namespace {

BpeSpec bytes_only() {
  BpeSpec spec;
  for (int byte = 0; byte < 256; ++byte) {
    spec.vocab.emplace_back(bytes_to_symbols(std::string(1, static_cast<char>(byte))), byte);
  }
  return spec;
}

BpeSpec with_merges(const std::vector<std::pair<std::string, std::string>>& merges) {
  BpeSpec spec = bytes_only();
  spec.merges = merges;
  std::vector<std::string> made;
  for (const auto& [left, right] : merges) {
    if (std::find(made.begin(), made.end(), left + right) == made.end()) made.push_back(left + right);
  }
  for (std::size_t i = 0; i < made.size(); ++i)
    spec.vocab.emplace_back(made[i], 256 + static_cast<TokenId>(i));
  return spec;
}

std::vector<TokenId> encode(const Bpe& bpe, std::string_view word) {
  Bpe::Scratch scratch;
  std::vector<TokenId> ids;
  bpe.encode_word(word, scratch, ids);
  return ids;
}

/// What byte-pair encoding means, word for word: look for the best pair, merge it, again.
std::vector<TokenId> plain_encode(const BpeSpec& spec, std::string_view word) {
  std::map<std::string, TokenId> ids(spec.vocab.begin(), spec.vocab.end());
  std::map<std::pair<std::string, std::string>, std::size_t> ranks;
  for (std::size_t i = 0; i < spec.merges.size(); ++i) ranks[spec.merges[i]] = i;
  std::vector<std::string> parts;
  for (const char byte : word) parts.push_back(bytes_to_symbols(std::string(1, byte)));
  for (;;) {
    std::size_t best = spec.merges.size(), at = 0;
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto found = ranks.find({parts[i], parts[i + 1]});
      if (found == ranks.end() || found->second >= best) continue;
      best = found->second;
      at = i;
    }
    if (best == spec.merges.size()) break;
    parts[at] += parts[at + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
  std::vector<TokenId> result;
  for (const std::string& part : parts) result.push_back(ids.at(part));
  return result;
}

TEST(Bpe, MergesLowestRankFirstThenLeftmost) {
  const Bpe bpe = must(Bpe::build(with_merges({{"b", "c"}, {"a", "b"}, {"a", "bc"}, {"a", "a"}})));
  EXPECT_EQ(encode(bpe, "abc"), (std::vector<TokenId>{258}));
  EXPECT_EQ(encode(bpe, "abb"), (std::vector<TokenId>{257, 'b'}));
  EXPECT_EQ(encode(bpe, "aaa"), (std::vector<TokenId>{259, 'a'}));
  EXPECT_EQ(encode(bpe, ""), std::vector<TokenId>{});
}

TEST(Bpe, AgreesWithThePlainAlgorithmOnRandomVocabularies) {
  std::mt19937 rng(5);
  const auto pick = [&](std::size_t n) { return static_cast<std::size_t>(rng() % n); };
  for (int round = 0; round < 60; ++round) {
    std::vector<std::string> tokens = {"a", "b", "c"};
    std::vector<std::pair<std::string, std::string>> merges;
    for (int i = 0; i < 25; ++i) {
      std::pair<std::string, std::string> merge(tokens[pick(tokens.size())], tokens[pick(tokens.size())]);
      if (std::find(merges.begin(), merges.end(), merge) != merges.end()) continue;
      tokens.push_back(merge.first + merge.second);
      merges.push_back(std::move(merge));
    }
    std::shuffle(merges.begin(), merges.end(),
                 rng);  // ranks need not follow the order in which tokens are made
    const BpeSpec spec = with_merges(merges);
    const Bpe bpe = must(Bpe::build(spec));
    for (int i = 0; i < 30; ++i) {
      std::string word;
      for (std::size_t n = pick(60); n > 0; --n) word.push_back("abc"[pick(3)]);
      ASSERT_EQ(encode(bpe, word), plain_encode(spec, word)) << word;
    }
  }
}

TEST(Bpe, IgnoreMergesTakesAWholeWordFromTheVocabulary) {
  BpeSpec spec = with_merges({{"a", "b"}});
  spec.vocab.emplace_back("abc", 300);
  EXPECT_EQ(encode(must(Bpe::build(spec)), "abc"), (std::vector<TokenId>{256, 'c'}));
  spec.ignore_merges = true;
  const Bpe bpe = must(Bpe::build(spec));
  EXPECT_EQ(encode(bpe, "abc"), std::vector<TokenId>{300});
  EXPECT_EQ(encode(bpe, "abcc"), (std::vector<TokenId>{256, 'c', 'c'}));
}

TEST(Bpe, EveryByteHasATokenAndBack) {
  const Bpe bpe = must(Bpe::build(bytes_only()));
  for (int byte = 0; byte < 256; ++byte) {
    const std::string text(1, static_cast<char>(byte));
    EXPECT_EQ(encode(bpe, text), std::vector<TokenId>{byte});
    EXPECT_EQ(bpe.bytes_of(byte), text);
  }
  EXPECT_EQ(bpe.bytes_of(256), std::nullopt);
  EXPECT_EQ(bpe.bytes_of(-1), std::nullopt);
}

TEST(BpeBuild, RefusesAVocabularyWithoutAByte) {
  BpeSpec spec = bytes_only();
  spec.vocab.erase(spec.vocab.begin() + 0x41);
  EXPECT_TRUE(contains(message_of(Bpe::build(spec)), "no token \"A\" for byte 0x41"));
  EXPECT_TRUE(contains(message_of(Bpe::build(BpeSpec{})), "model.vocab is empty"));
}

TEST(BpeBuild, RefusesIdsThatAreTwiceOrOutOfRange) {
  BpeSpec spec = bytes_only();
  spec.vocab.emplace_back("xy", 7);
  EXPECT_TRUE(contains(message_of(Bpe::build(spec)), "id 7 belongs to both"));
  spec.vocab.back() = {"xy", kMaxTokenId + 1};
  EXPECT_TRUE(contains(message_of(Bpe::build(spec)), "has id 2097152; expected 0 to 2097151"));
  spec.vocab.back() = {"xy", -1};
  EXPECT_TRUE(contains(message_of(Bpe::build(spec)), "has id -1"));
  spec.vocab.back() = {"", 256};
  EXPECT_TRUE(contains(message_of(Bpe::build(spec)), "the token of id 256 is empty"));
  spec.vocab.back() = {"a", 256};
  EXPECT_TRUE(contains(message_of(Bpe::build(spec)), "token \"a\" appears twice"));
}

TEST(BpeBuild, RefusesMergesOutsideTheVocabulary) {
  BpeSpec spec = with_merges({{"a", "b"}});
  spec.merges = {{"a", "b"}, {"a", "zz"}};
  EXPECT_TRUE(contains(message_of(Bpe::build(spec)), "model.merges[1]: \"zz\" is not in model.vocab"));
  spec.merges = {{"yy", "b"}};
  EXPECT_TRUE(contains(message_of(Bpe::build(spec)), "model.merges[0]: \"yy\" is not"));
  spec.merges = {{"a", "c"}};
  EXPECT_TRUE(contains(message_of(Bpe::build(spec)), "model.merges[0]: \"ac\" is not"));
  spec.merges = {{"a", "b"}, {"a", "b"}};
  EXPECT_TRUE(contains(message_of(Bpe::build(spec)), "the pair \"a\" \"b\" appears twice"));
}

}  // namespace
}  // namespace dif::text
