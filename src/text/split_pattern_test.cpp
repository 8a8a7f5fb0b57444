#include "text/split_pattern.h"

#include <gtest/gtest.h>

#include "text/split_syntax.h"
#include "text/test_tokenizers.h"

namespace dif::text {
namespace {

constexpr std::string_view kQwen =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

using Words = std::vector<std::string>;

Words split(const SplitPattern& pattern, std::string_view text) {
  auto scratch = pattern.make_scratch();
  std::vector<std::size_t> ends;
  const auto status = pattern.split(text, scratch, ends);
  if (!status) throw std::runtime_error(status.error().message);
  Words words;
  std::size_t begin = 0;
  for (const std::size_t end : ends) {
    words.emplace_back(text.substr(begin, end - begin));
    begin = end;
  }
  return words;
}

Words split(std::string_view pattern, std::string_view text) {
  return split(must(SplitPattern::compile(pattern)), text);
}

TEST(SplitPattern, CutsAsTheQwenPatternSays) {
  EXPECT_EQ(split(kQwen, "I'll take 12  red\r\n\n apples!!\n"),
            (Words{"I", "'ll", " take", " ", "1", "2", " ", " red", "\r\n\n", " apples", "!!\n"}));
  EXPECT_EQ(split(kQwen, "x   \n  y  "), (Words{"x", "   \n", " ", " y", "  "}));
  EXPECT_EQ(split(kQwen, ""), Words{});
}

TEST(SplitPattern, GapsBetweenMatchesArePieces) {
  EXPECT_EQ(split("b+", "abbcba"), (Words{"a", "bb", "c", "b", "a"}));
  EXPECT_EQ(split("z", "abc"), Words{"abc"});
}

TEST(SplitPattern, WhiteSpaceIsTheUnicodeProperty) {
  EXPECT_EQ(split(R"(\s+)", "a\u0085\u3000b\u180e\u200bc"), (Words{"a", "\u0085\u3000", "b\u180e\u200bc"}));
  EXPECT_EQ(split(R"([^\s]+)", "a\u180eb c"), (Words{"a\u180eb", " ", "c"}));
}

TEST(SplitPattern, KnowsTheLettersNumbersAndMarksOfUnicode16) {
  EXPECT_EQ(split(R"(\p{L}+)", "1\U00013460\U0002ebf0a1"), (Words{"1", "\U00013460\U0002ebf0a", "1"}));
  EXPECT_EQ(split(R"(\P{L}+)", "a\U00013460-+b"), (Words{"a\U00013460", "-+", "b"}));
  EXPECT_EQ(split(R"([\p{L}\p{N}]+)", "-\U00010d40\ua7cb-"), (Words{"-", "\U00010d40\ua7cb", "-"}));
  EXPECT_EQ(split(R"(\p{M}+)", "a\u0897\u0301b"), (Words{"a", "\u0897\u0301", "b"}));
}

TEST(SplitPattern, IgnoresCaseAsUnicodeDoes) {
  EXPECT_EQ(split(kQwen, "IT'S it'\u017f x"), (Words{"IT", "'S", " it", "'\u017f", " x"}));
}

TEST(SplitPattern, NulIsACharacter) {
  using std::string_literals::operator""s;
  EXPECT_EQ(split(kQwen, "a\0b"s), (Words{"a", "\0b"s}));
}

TEST(SplitPattern, RefusesPatternsThatMatchTheEmptyText) {
  EXPECT_TRUE(contains(message_of(SplitPattern::compile("a*")), "can match the empty text"));
}

TEST(SplitPattern, RefusesMalformedPatterns) {
  for (const std::string_view pattern : {"(a", "a)", "*a", "[b-a]", "a**"}) {
    EXPECT_FALSE(SplitPattern::compile(pattern)) << pattern;
  }
  EXPECT_FALSE(SplitPattern::compile("\xff"));
  EXPECT_FALSE(SplitPattern::compile(std::string(65 * 1024, 'a')));
  EXPECT_FALSE(SplitPattern::compile(std::string(10'000, '(') + "a" + std::string(10'000, ')')));
}

TEST(SplitPattern, EndlessBacktrackingIsAnErrorNotAHang) {
  const auto pattern = must(SplitPattern::compile("(?:a+)+b"));
  auto scratch = pattern.make_scratch();
  std::vector<std::size_t> ends;
  const auto status = pattern.split(std::string(200, 'a') + "cb", scratch, ends);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kInvalidInput);
  EXPECT_TRUE(contains(status.error().message, "match limit"));
}

TEST(SplitSyntax, AcceptsWhatBothEnginesReadAlike) {
  for (const std::string_view pattern : {"a|b",
                                         "(?:a)",
                                         "(a)",
                                         "(?=a)b",
                                         "(?!a)b",
                                         "(?<=a)b",
                                         "(?<!a)b",
                                         "(?>a)",
                                         "(?i:a)",
                                         R"(\p{Lu}\P{Nd})",
                                         "a{2}",
                                         "a{2,}",
                                         "a{2,3}",
                                         "a+?",
                                         "a*+b",
                                         "[a-z]",
                                         "[^a-z-]",
                                         R"([\x{4e00}-\x{9fff}])",
                                         R"(\.\[\]\-\/)",
                                         R"([\-a]\d\D\S)",
                                         "."}) {
    EXPECT_TRUE(translate_split_pattern(pattern)) << pattern;
  }
}

TEST(SplitSyntax, RefusesWhatTheEnginesReadDifferently) {
  for (const std::string_view pattern :
       {R"(\h)",     R"(\w)",       R"(\b)",     R"(\v)",   R"(\R)",        R"(\X)",  R"(\K)",
        R"(\C)",     R"(\1)",       R"(\u0041)", R"(\x41)", R"(\p{Greek})", R"(\pL)", R"(\p{^L})",
        "^a",        "a$",          "(?i)a",     "(?-i:a)", "(?<n>a)",      "(?R)",   "(*LIMIT_MATCH=1)a",
        "(?#c)",     "[[:alpha:]]", "[a[b]]",    "[a&&b]",  "[]a]",         "[a",     R"([\P{L}])",
        R"([a-\s])", R"([\s-a])",   "a{,2}",     "a{x}",    "a{2}+",        "a{2}?",  R"(\)",
        R"(\x{})",   R"(\x{zz})",   R"(\p{L)"}) {
    EXPECT_FALSE(translate_split_pattern(pattern)) << pattern;
  }
  EXPECT_TRUE(
      contains(message_of(translate_split_pattern("ab\\w")), "offset 2: this escape is not supported"));
}

}  // namespace
}  // namespace dif::text
