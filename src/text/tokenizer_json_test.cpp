#include "text/tokenizer_json.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>

#include "text/test_tokenizers.h"

namespace dif::text {
namespace {

using nlohmann::json;

/// Damages the small tokenizer and returns what the reader says.
std::string refusal(const std::function<void(json&)>& damage) {
  json tokenizer = small_tokenizer_json();
  damage(tokenizer);
  return message_of(tokenizer_from(tokenizer));
}

std::string config_refusal(const json& config) {
  return message_of(tokenizer_from(small_tokenizer_json(), config));
}

TEST(TokenizerJson, AcceptsTheSmallTokenizer) {
  const Tokenizer tokenizer = must(tokenizer_from(small_tokenizer_json()));
  EXPECT_EQ(must(tokenizer.encode("abc ab<x>c")), (std::vector<TokenId>{257, ' ', 256, 258, 'c'}));
  EXPECT_EQ(tokenizer.id_limit(), 259);
  EXPECT_EQ(tokenizer.pad_id(), std::nullopt);
  EXPECT_EQ(tokenizer.chat_template(), "");
}

TEST(TokenizerJson, MergesAsStringsAreTheSame) {
  json tokenizer = small_tokenizer_json();
  tokenizer["model"]["merges"] = {"#version: 0.2", "a b", "ab c"};
  EXPECT_EQ(must(must(tokenizer_from(tokenizer)).encode("abc")), std::vector<TokenId>{257});
}

TEST(TokenizerJson, RefusesOtherComponents) {
  EXPECT_EQ(refusal([](json& t) {
              t["normalizer"] = {{"type", "NFKC"}};
            }),
            "tokenizer.json: normalizer.type: expected NFC, the only normalizer supported, found \"NFKC\"");
  EXPECT_TRUE(contains(refusal([](json& t) {
                         t["normalizer"] = {{"type", "Sequence"}, {"normalizers", {{{"type", "Lowercase"}}}}};
                       }),
                       "normalizer.normalizers[0].type: expected NFC"));
  EXPECT_TRUE(contains(refusal([](json& t) { t["normalizer"] = "NFC"; }),
                       "normalizer: expected an object with a type"));
  EXPECT_TRUE(contains(refusal([](json& t) {
                         t["pre_tokenizer"] = {{"type", "Metaspace"}};
                       }),
                       "pre_tokenizer.type: expected Split, ByteLevel or a Sequence"));
  EXPECT_TRUE(
      contains(refusal([](json& t) { t["pre_tokenizer"] = nullptr; }), "pre_tokenizer: expected an object"));
  EXPECT_TRUE(contains(refusal([](json& t) {
                         t["post_processor"] = {{"type", "TemplateProcessing"}};
                       }),
                       "post_processor.type: expected ByteLevel or nothing"));
  EXPECT_TRUE(contains(refusal([](json& t) {
                         t["decoder"] = {{"type", "WordPiece"}};
                       }),
                       "decoder.type: expected ByteLevel"));
  EXPECT_TRUE(contains(refusal([](json& t) { t["model"]["type"] = "Unigram"; }),
                       "model.type: expected BPE, the only model supported, found \"Unigram\""));
  EXPECT_TRUE(contains(refusal([](json& t) { t["version"] = "2.0"; }), "version: expected \"1.0\""));
}

TEST(TokenizerJson, RefusesSettingsThatWouldChangeIds) {
  EXPECT_TRUE(
      contains(refusal([](json& t) { t["pre_tokenizer"]["add_prefix_space"] = true; }), "add_prefix_space"));
  EXPECT_TRUE(
      contains(refusal([](json& t) { t["pre_tokenizer"].erase("add_prefix_space"); }), "add_prefix_space"));
  EXPECT_TRUE(contains(refusal([](json& t) { t["model"]["dropout"] = 0.1; }),
                       "model.dropout: expected null, found 0.1"));
  EXPECT_TRUE(contains(refusal([](json& t) { t["model"]["continuing_subword_prefix"] = "##"; }),
                       "continuing_subword_prefix"));
  EXPECT_TRUE(
      contains(refusal([](json& t) { t["model"]["end_of_word_suffix"] = "</w>"; }), "end_of_word_suffix"));
  EXPECT_TRUE(contains(refusal([](json& t) { t["model"]["byte_fallback"] = true; }), "byte_fallback"));
  EXPECT_TRUE(contains(refusal([](json& t) { t["model"]["ignore_merges"] = 1; }),
                       "ignore_merges: expected true or false"));
}

json split(const json& pattern, const json& more = json::object()) {
  json node = {{"type", "Split"}, {"pattern", pattern}, {"behavior", "Isolated"}, {"invert", false}};
  node.update(more);
  const json byte_level = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  return {{"type", "Sequence"}, {"pretokenizers", {node, byte_level}}};
}

TEST(TokenizerJson, RefusesSplitsOfOtherKinds) {
  const auto with = [](const json& pre_tokenizer) {
    return refusal([&](json& t) { t["pre_tokenizer"] = pre_tokenizer; });
  };
  EXPECT_EQ(with(split({{"Regex", "a+"}})), "accepted");
  EXPECT_TRUE(
      contains(with(split({{"String", "a"}})), "pretokenizers[0].pattern: expected a regular expression"));
  EXPECT_TRUE(contains(with(split({{"Regex", 5}})), "pattern.Regex: expected a string, found 5"));
  EXPECT_TRUE(contains(with(split({{"Regex", "a*"}})), "can match the empty text"));
  EXPECT_TRUE(contains(with(split({{"Regex", "(a"}})), "pattern \"(a\": missing closing parenthesis"));
  EXPECT_TRUE(contains(with(split({{"Regex", "\\w+"}})), "this escape is not supported"));
  EXPECT_TRUE(
      contains(with(split({{"Regex", "a"}}, {{"behavior", "Removed"}})), "behavior: expected \"Isolated\""));
  EXPECT_TRUE(contains(with(split({{"Regex", "a"}}, {{"invert", true}})), "invert: expected false"));
  json twice = split({{"Regex", "a"}});
  twice["pretokenizers"].push_back(twice["pretokenizers"][1]);
  EXPECT_TRUE(contains(with(twice), "expected nothing after the ByteLevel"));
  json only_split = split({{"Regex", "a"}});
  only_split["pretokenizers"].erase(1);
  EXPECT_TRUE(contains(with(only_split), "expected a ByteLevel pre-tokenizer at the end"));
  json many = split({{"Regex", "a"}});
  many["pretokenizers"] = json::array();
  for (int i = 0; i < 17; ++i) many["pretokenizers"].push_back(split({{"Regex", "a"}})["pretokenizers"][0]);
  EXPECT_TRUE(contains(with(many), "expected at most 16 patterns"));
}

TEST(TokenizerJson, RefusesMalformedVocabularies) {
  EXPECT_TRUE(contains(refusal([](json& t) { t["model"]["vocab"]["a"] = -1; }),
                       "model.vocab.a: expected an id from 0"));
  EXPECT_TRUE(contains(refusal([](json& t) { t["model"]["vocab"]["a"] = 1.5; }),
                       "model.vocab.a: expected an id from 0"));
  EXPECT_TRUE(contains(refusal([](json& t) { t["model"]["vocab"]["a"] = 3000000000U; }), "found 3000000000"));
  EXPECT_TRUE(contains(refusal([](json& t) { t["model"]["vocab"]["a"] = 18446744073709551615U; }),
                       "expected an id from 0"));
  EXPECT_TRUE(contains(refusal([](json& t) { t["model"]["vocab"]["a"] = "97"; }), "expected an id from 0"));
  EXPECT_TRUE(contains(refusal([](json& t) { t["model"]["vocab"]["a"] = 98; }), "id 98 belongs to both"));
  EXPECT_TRUE(contains(refusal([](json& t) { t["model"]["vocab"].erase("a"); }), "for byte 0x61"));
  EXPECT_TRUE(contains(refusal([](json& t) { t["model"]["vocab"] = json::array(); }),
                       "model.vocab: expected an object"));
  EXPECT_TRUE(contains(refusal([](json& t) { t["model"]["vocab"][std::string(20'000, 'x')] = 300; }),
                       "a token of 20000 bytes"));
  EXPECT_TRUE(
      contains(refusal([](json& t) { t.erase("model"); }), "model: expected an object, found nothing"));
  EXPECT_TRUE(
      contains(refusal([](json& t) { t = json::array(); }), "document: expected an object with a model"));
}

TEST(TokenizerJson, RefusesMalformedMerges) {
  EXPECT_TRUE(contains(refusal([](json& t) { t["model"]["merges"] = {"ab"}; }),
                       "model.merges[0]: expected two texts"));
  EXPECT_TRUE(contains(refusal([](json& t) { t["model"]["merges"] = {"a b c"}; }),
                       "model.merges[0]: expected two texts"));
  EXPECT_TRUE(contains(refusal([](json& t) {
                         t["model"]["merges"][1] = {"a", "b", "c"};
                       }),
                       "model.merges[1]: expected two"));
  EXPECT_TRUE(contains(refusal([](json& t) {
                         t["model"]["merges"][1] = {"a", 5};
                       }),
                       "model.merges[1]: expected two"));
  EXPECT_TRUE(contains(refusal([](json& t) {
                         t["model"]["merges"][1] = {"", "ab"};
                       }),
                       "model.merges[1]: \"\" is not in"));
  EXPECT_TRUE(contains(refusal([](json& t) {
                         t["model"]["merges"][1] = {"q", "r"};
                       }),
                       "\"qr\" is not in model.vocab"));
  EXPECT_TRUE(contains(refusal([](json& t) { t["model"]["merges"][1] = {"a", "b"}; }), "appears twice"));
  EXPECT_TRUE(
      contains(refusal([](json& t) { t["model"].erase("merges"); }), "model.merges: expected a list"));
  EXPECT_TRUE(contains(refusal([](json& t) {
                         t["model"]["merges"] = {"a b", "#version: 0.2"};
                       }),
                       "model.merges[1]: \"#version:\""));
}

TEST(TokenizerJson, RefusesMalformedAddedTokens) {
  const auto with = [](const json& token) {
    return refusal([&](json& t) { t["added_tokens"].push_back(token); });
  };
  EXPECT_EQ(with({{"id", 259}, {"content", "<y>"}}), "accepted");
  EXPECT_TRUE(contains(with({{"id", 259}, {"content", ""}}), "the token of id 259 is empty"));
  EXPECT_TRUE(
      contains(with({{"id", 259}, {"content", std::string(513, 'x')}}), "has 513 bytes; the limit is 512"));
  EXPECT_TRUE(contains(with({{"id", 258}, {"content", "<y>"}}), "added_tokens: id 258 appears twice"));
  EXPECT_TRUE(
      contains(with({{"id", 259}, {"content", "<x>"}}), "added token \"<x>\" has the ids 258 and 259"));
  EXPECT_TRUE(contains(with({{"id", 97}, {"content", "<y>"}}),
                       "id 97 is added token \"<y>\" and \"a\" of the vocabulary"));
  EXPECT_TRUE(contains(with({{"id", 259}, {"content", "ab"}}),
                       "added token \"ab\" has id 259, and id 256 in the vocabulary"));
  EXPECT_TRUE(contains(with({{"id", -3}, {"content", "<y>"}}), "added_tokens[1].id: expected an id from 0"));
  EXPECT_TRUE(
      contains(with({{"id", 1U << 30}, {"content", "<y>"}}), "added_tokens[1].id: expected an id from 0"));
  EXPECT_TRUE(contains(with({{"content", "<y>"}}), "added_tokens[1].id: expected an id"));
  EXPECT_TRUE(contains(with({{"id", 259}}), "added_tokens[1].content: expected a string, found nothing"));
  EXPECT_TRUE(
      contains(with({{"id", 259}, {"content", "<y>"}, {"lstrip", "no"}}), "lstrip: expected true or false"));
  EXPECT_TRUE(contains(with("<y>"), "added_tokens[1]: expected an object"));
  EXPECT_TRUE(contains(refusal([](json& t) { t["added_tokens"] = 5; }), "added_tokens: expected a list"));
}

TEST(TokenizerJson, RefusesTokensThatNormalisationMakesEqual) {
  const auto message = refusal([](json& t) {
    t["normalizer"] = {{"type", "NFC"}};
    t["added_tokens"].push_back({{"id", 259}, {"content", "\u1ec3"}, {"normalized", true}});
    t["added_tokens"].push_back({{"id", 260}, {"content", "e\u0302\u0309"}, {"normalized", true}});
  });
  EXPECT_TRUE(contains(message, "added tokens 259 and 260 have the same normalised text"));
}

TEST(TokenizerJson, RefusesTooManyAddedTokens) {
  const auto message = refusal([](json& t) {
    for (int i = 0; i < 65'536; ++i)
      t["added_tokens"].push_back({{"id", 259 + i}, {"content", fmt::format("<{}>", i)}});
  });
  EXPECT_TRUE(contains(message, "added_tokens has 65537 entries; the limit is 65536"));
  const auto long_ones = refusal([](json& t) {
    for (int i = 0; i < 3000; ++i) {
      t["added_tokens"].push_back({{"id", 259 + i}, {"content", fmt::format("{:0500}", i)}});
    }
  });
  EXPECT_TRUE(contains(long_ones, "bytes of text; the limit is"));
}

TEST(TokenizerConfig, AddsTokensThatTheTokenizerLacks) {
  const json config = {{"added_tokens_decoder",
                        {{"258", {{"content", "<x>"}}}, {"300", {{"content", "<d>"}, {"special", true}}}}},
                       {"pad_token", {{"content", "<d>"}}},
                       {"chat_template", "{{ messages }}"}};
  const Tokenizer tokenizer = must(tokenizer_from(small_tokenizer_json(), config));
  EXPECT_EQ(must(tokenizer.encode("a<d><x>")), (std::vector<TokenId>{'a', 300, 258}));
  EXPECT_EQ(tokenizer.pad_id(), 300);
  EXPECT_EQ(tokenizer.id_limit(), 301);
  EXPECT_EQ(tokenizer.chat_template(), "{{ messages }}");
}

TEST(TokenizerConfig, TokenizerJsonDecidesTheFlagsOfATokenInBoth) {
  json tokenizer = small_tokenizer_json();
  tokenizer["added_tokens"][0]["lstrip"] = true;
  const json config = {{"added_tokens_decoder", {{"258", {{"content", "<x>"}, {"lstrip", false}}}}}};
  EXPECT_EQ(must(must(tokenizer_from(tokenizer, config)).encode("a  <x>")), (std::vector<TokenId>{'a', 258}));
}

TEST(TokenizerConfig, TakesTheDefaultOfSeveralChatTemplates) {
  const json config = {
      {"chat_template", {{{"name", "tools"}, {"template", "T"}}, {{"name", "default"}, {"template", "D"}}}}};
  EXPECT_EQ(must(tokenizer_from(small_tokenizer_json(), config)).chat_template(), "D");
}

TEST(TokenizerConfig, RefusesWhatContradictsOrIsMalformed) {
  EXPECT_TRUE(contains(config_refusal({{"added_tokens_decoder", {{"258", {{"content", "<z>"}}}}}}),
                       "id 258 is added token \"<x>\" in added_tokens and \"<z>\" in added_tokens_decoder"));
  for (const char* key : {"x", "", "-1", "1x", "99999999999999999999", "2097152", " 300"}) {
    EXPECT_TRUE(contains(config_refusal({{"added_tokens_decoder", {{key, {{"content", "<z>"}}}}}}),
                         "keys that are ids"))
        << key;
  }
  EXPECT_TRUE(contains(config_refusal({{"added_tokens_decoder", {{"300", {{"content", ""}}}}}}),
                       "the token of id 300 is empty"));
  EXPECT_TRUE(contains(config_refusal({{"added_tokens_decoder", {{"300", "<z>"}}}}),
                       "added_tokens_decoder.300: expected an object"));
  EXPECT_TRUE(
      contains(config_refusal({{"added_tokens_decoder", json::array()}}), "expected an object of ids"));
  EXPECT_TRUE(contains(config_refusal({{"added_tokens_decoder",
                                        {{"300", {{"content", "<z>"}}}, {"0300", {{"content", "<y>"}}}}}}),
                       "id 300 appears twice"));
  EXPECT_TRUE(contains(config_refusal({{"pad_token", "<none>"}}), "pad_token \"<none>\" is not a token"));
  EXPECT_TRUE(contains(config_refusal({{"pad_token", ""}}), "pad_token: expected the text of a token"));
  EXPECT_TRUE(contains(config_refusal({{"pad_token", 7}}), "pad_token: expected a string, found 7"));
  EXPECT_TRUE(contains(config_refusal({{"add_bos_token", true}}), "add_bos_token: expected false"));
  EXPECT_TRUE(
      contains(config_refusal({{"split_special_tokens", true}}), "split_special_tokens: expected false"));
  EXPECT_TRUE(contains(config_refusal({{"chat_template", 7}}), "chat_template: expected a string"));
  EXPECT_TRUE(contains(config_refusal(json::array()), "tokenizer_config.json: document: expected an object"));
}

}  // namespace
}  // namespace dif::text
