#include "text/tokenizer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <thread>

#include "text/battery.h"
#include "text/test_tokenizers.h"
#include "text/utf8.h"

namespace dif::text {
namespace {

using std::string_literals::operator""s;

TEST(BundledTokenizer, GivesTheIdsOfTheModelsFixtures) {
  expect_battery(bundled_tokenizer(), "emoji-klein/tokenizer_cases.json", 13);
}

/// Marks, ZWJ, right-to-left, Devanagari, CRLF, control tokens in the prompt, more than 512 tokens, long
/// digits.
TEST(BundledTokenizer, GivesTheIdsOfTheReferenceForTheBattery) {
  expect_battery(bundled_tokenizer(), "tokenizer/emoji-klein.json", 103);
}

TEST(BundledTokenizer, MergesAsStringsGiveTheSameIds) {
  nlohmann::json tokenizer = bundled_tokenizer_json();
  for (auto& merge : tokenizer["model"]["merges"]) {
    merge = merge[0].get<std::string>() + " " + merge[1].get<std::string>();
  }
  expect_battery(must(tokenizer_from(tokenizer)), "tokenizer/emoji-klein.json", 103);
}

TEST(Tokenizer, ReadsFolderWithConfigAndTemplate) {
  const Tokenizer& tokenizer = bundled_tokenizer();
  EXPECT_EQ(tokenizer.id_limit(), 1024);
  EXPECT_EQ(tokenizer.pad_id(), 998);
  EXPECT_EQ(tokenizer.find("<|im_start|>"), 999);
  EXPECT_EQ(tokenizer.find(" heart"), 428);
  EXPECT_EQ(tokenizer.find("no such token"), std::nullopt);
  EXPECT_TRUE(contains(tokenizer.chat_template(), "<|im_start|>"));
  ASSERT_NE(tokenizer.added_token(1022), nullptr);
  EXPECT_EQ(tokenizer.added_token(1022)->content, "<think>");
  EXPECT_EQ(tokenizer.added_token(0), nullptr);
}

TEST(Tokenizer, MissingFilesAreNamed) {
  const test::ScratchDir dir;
  const auto missing = load_tokenizer(dir.path());
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(contains(missing.error().message, "tokenizer.json"));
  const auto no_config = load_tokenizer_files(bundled_tokenizer_dir() / "tokenizer.json", dir / "none.json");
  EXPECT_TRUE(contains(message_of(no_config), "none.json"));
}

TEST(Tokenizer, ErrorsOfAFileNameTheFile) {
  const test::ScratchDir dir;
  nlohmann::json tokenizer = small_tokenizer_json();
  tokenizer["model"]["vocab"].erase("a");
  std::ofstream(dir / "tokenizer.json") << tokenizer.dump();
  EXPECT_TRUE(contains(message_of(load_tokenizer(dir.path())),
                       (dir / "tokenizer.json").string() + ": model.vocab: no token"));
  std::ofstream(dir / "tokenizer.json") << small_tokenizer_json().dump().substr(0, 1000);
  EXPECT_TRUE(contains(message_of(load_tokenizer(dir.path())), (dir / "tokenizer.json").string()));
  std::ofstream(dir / "tokenizer.json") << small_tokenizer_json().dump();
  EXPECT_EQ(message_of(load_tokenizer(dir.path())), "accepted");
  std::ofstream(dir / "chat_template.jinja") << "\xff";
  EXPECT_TRUE(contains(message_of(load_tokenizer(dir.path())), "chat_template.jinja: byte 0xff at offset 0"));
}

TEST(Tokenizer, InvalidUtf8IsAnErrorWithItsOffset) {
  for (const std::string& text :
       {"abc\xff"s, "abc\xc3"s, "abc\xed\xa0\x80"s, "abc\xc0\x80"s, "abc\xf4\x90\x80\x80"s, "abc\x80"s}) {
    const auto ids = bundled_tokenizer().encode(text);
    ASSERT_FALSE(ids);
    EXPECT_EQ(ids.error().code, ErrorCode::kInvalidInput);
    EXPECT_TRUE(contains(ids.error().message, "at offset 3 is not UTF-8"));
  }
}

TEST(Tokenizer, NulIsOneCharacterAndEndsNothing) {
  const auto ids = must(bundled_tokenizer().encode("a\0b\0"s));
  EXPECT_EQ(must(bundled_tokenizer().decode(ids)), "a\0b\0"s);
  EXPECT_EQ(ids.size(), 4U);
}

TEST(Tokenizer, TooLongTextsAreRefused) {
  const auto ids = bundled_tokenizer().encode(std::string(kMaxTextBytes + 1, 'a'));
  EXPECT_TRUE(contains(message_of(ids), "text of 16777217 bytes; the limit is 16777216 bytes"));
}

TEST(Tokenizer, PatternsThatBacktrackWithoutEndAreAnError) {
  nlohmann::json tokenizer = small_tokenizer_json();
  tokenizer["pre_tokenizer"] = {{"type", "Sequence"},
                                {"pretokenizers",
                                 {{{"type", "Split"},
                                   {"pattern", {{"Regex", "(?:a|aa)+(?=b)"}}},
                                   {"behavior", "Isolated"},
                                   {"invert", false}},
                                  {{"type", "ByteLevel"}, {"add_prefix_space", false}}}}};
  const Tokenizer made = must(tokenizer_from(tokenizer));
  EXPECT_TRUE(made.encode("aab"));
  EXPECT_TRUE(contains(message_of(made.encode(std::string(500, 'a'))), "match limit"));
}

TEST(Tokenizer, DecodeGivesBackTextInNfc) {
  std::mt19937 rng(3);
  for (int round = 0; round < 300; ++round) {
    std::string text;
    for (int i = 0; i < 40; ++i) {
      char32_t c = rng() % (round % 2 == 0 ? 0x300 : 0x3000);
      if (c >= 0x300 && c < 0x1e00) c = 0x4e00 + c;  // letters that NFC leaves alone
      if (c >= 0x1e00 && c < 0x2c00) c = 0x1f600 + c % 64;
      append_utf8(text, c < 0x2c00 || c >= 0x4e00 ? c : U'x');
    }
    ASSERT_EQ(must(bundled_tokenizer().decode(must(bundled_tokenizer().encode(text)))), text);
  }
  EXPECT_EQ(must(bundled_tokenizer().decode(must(bundled_tokenizer().encode("<|im_end|>e\u0301")))),
            "<|im_end|>\u00e9");
}

TEST(Tokenizer, DecodeOfPartOfACharacterGivesItsBytes) {
  const auto ids = must(bundled_tokenizer().encode("\u65e5"));
  ASSERT_EQ(ids.size(), 3U);
  EXPECT_EQ(must(bundled_tokenizer().decode(std::span(ids).first(2))), "\xe6\x97");
}

TEST(Tokenizer, DecodeNamesAnIdThatIsNoToken) {
  for (const TokenId bad : {-1, 1024, 1 << 30}) {
    const std::vector<TokenId> ids = {5, bad};
    EXPECT_EQ(message_of(bundled_tokenizer().decode(ids)),
              fmt::format("id {} at position 1 is no token; ids are from 0 to 1023", bad));
  }
}

TEST(Tokenizer, CopiesCanBeUsedByManyThreads) {
  const std::string text = "a red apple on a blue plate, e\u0301clair \U0001f600 " + std::string(3000, 'a');
  const auto expected = must(bundled_tokenizer().encode(text));
  std::vector<std::vector<TokenId>> found(4);
  std::vector<std::thread> threads;
  for (auto& ids : found) {
    threads.emplace_back([&ids, &text, tokenizer = bundled_tokenizer()] {
      for (int i = 0; i < 50; ++i) ids = must(tokenizer.encode(text));
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& ids : found) EXPECT_EQ(ids, expected);
}

TEST(Battery, CountsAndNamesWrongCases) {
  const auto document = must(io::JsonDocument::parse(
      R"([{"text":"red heart","ids":[609,428]},{"text":"red heart","ids":[609]},{"text":"a","ids":[1,2]}])",
      "battery"));
  const auto report = must(run_battery(bundled_tokenizer(), document));
  EXPECT_EQ(report.n_cases, 3U);
  EXPECT_EQ(report.n_failed, 2U);
  EXPECT_EQ(report.failures.at(0), "case 1, \"red heart\": token 1: expected the end, found 428");
}

TEST(Battery, RefusesOtherDocuments) {
  for (const char* text :
       {"[]", "{}", "5", R"([{"text":"a"}])", R"([{"text":"a","ids":[-1]}])", R"([{"text":"a","ids":[1.5]}])",
        R"([{"text":5,"ids":[1]}])", R"({"cases":[]})", R"([5])", R"([{"text":"a","ids":[99999999999]}])"}) {
    EXPECT_FALSE(run_battery(bundled_tokenizer(), must(io::JsonDocument::parse(text, "battery")))) << text;
  }
}

}  // namespace
}  // namespace dif::text
