#include "text/added_tokens.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "text/battery.h"
#include "text/test_tokenizers.h"

namespace dif::text {
namespace {

/// The pieces as text: "[id:text]" for tokens, the text itself otherwise, joined by '|'.
std::string pieces(const AddedTokenFinder& finder, std::string_view text) {
  std::string result;
  const auto status = finder.split(text, [&](const AddedTokenFinder::Piece& piece) -> Status {
    if (!result.empty()) result += '|';
    result += piece.id ? fmt::format("[{}:{}]", *piece.id, piece.text) : std::string(piece.text);
    return ok();
  });
  EXPECT_TRUE(status);
  return result;
}

TEST(AddedTokenFinder, TakesTheLeftmostAndThereTheLongest) {
  const AddedTokenFinder finder(
      {{.id = 1, .content = "<a"}, {.id = 2, .content = "<a>b"}, {.id = 3, .content = "a>"}});
  EXPECT_EQ(pieces(finder, "x<a>b<a>ca>"), "x|[2:<a>b]|[1:<a]|>c|[3:a>]");
  EXPECT_EQ(pieces(finder, ""), "");
  EXPECT_EQ(pieces(finder, "<b"), "<b");
}

TEST(AddedTokenFinder, WithoutTokensTheTextIsOnePiece) {
  EXPECT_EQ(pieces(AddedTokenFinder({}), "<a>"), "<a>");
}

TEST(AddedTokenFinder, StripFlagsTakeWhiteSpaceAlong) {
  const AddedTokenFinder finder(
      {{.id = 1, .content = "<L>", .lstrip = true}, {.id = 2, .content = "<R>", .rstrip = true}});
  EXPECT_EQ(pieces(finder, "a \u3000<L> b"), "a|[1: \u3000<L>]| b");
  EXPECT_EQ(pieces(finder, "a <R>\n\u00a0b"), "a |[2:<R>\n\u00a0]|b");
  EXPECT_EQ(pieces(finder, "<R> <L>"), "[2:<R> ]|[1:<L>]");
}

TEST(AddedTokenFinder, SingleWordNeedsNoWordCharacterBesideIt) {
  const AddedTokenFinder finder({{.id = 1, .content = "cat", .single_word = true}});
  EXPECT_EQ(pieces(finder, "cat cats -cat, concat \u00e9cat cat\u0301"),
            "[1:cat]| cats -|[1:cat]|, concat \u00e9cat cat\u0301");
  EXPECT_EQ(pieces(finder, "cat\u24b6 cat_ cat5"), "cat\u24b6 cat_ cat5");
  EXPECT_EQ(pieces(finder, "cat\u00b2"), "[1:cat]|\u00b2");
}

TEST(AddedTokenFinder, AnErrorOfTheVisitorStops) {
  const AddedTokenFinder finder({{.id = 1, .content = "x"}});
  int calls = 0;
  const auto status = finder.split("axbx", [&](const AddedTokenFinder::Piece&) -> Status {
    return ++calls == 2 ? Status(tl::unexpected(Error{ErrorCode::kInternal, "stop"})) : ok();
  });
  EXPECT_FALSE(status);
  EXPECT_EQ(calls, 2);
}

TEST(AddedTokenFinder, WhiteSpaceTokensThatStripTakeLinearTime) {
  const AddedTokenFinder finder(
      {{.id = 1, .content = " ", .rstrip = true}, {.id = 2, .content = "  ", .lstrip = true}});
  std::size_t tokens = 0;
  const auto status =
      finder.split(std::string(2'000'001, ' '), [&](const AddedTokenFinder::Piece& piece) -> Status {
        tokens += piece.id ? 1 : 0;
        return ok();
      });
  EXPECT_TRUE(status);
  EXPECT_EQ(tokens, 1'000'001U);
}

/// Ids of the Hugging Face tokenizer for the bundled vocabulary with added tokens of every flag.
TEST(AddedTokens, FlagsMeanWhatTheReferenceMeans) {
  const auto battery = must(io::JsonDocument::read(test::fixture("tokenizer/added-token-flags.json")));
  nlohmann::json tokenizer = bundled_tokenizer_json();
  for (const auto& token : battery.value().at("added_tokens")) tokenizer["added_tokens"].push_back(token);
  const auto report = must(run_battery(must(tokenizer_from(tokenizer)), battery));
  EXPECT_EQ(report.n_failed, 0U) << report.failures.front();
  EXPECT_EQ(report.n_cases, 447U);
}

}  // namespace
}  // namespace dif::text
