#include <gtest/gtest.h>

#include "text/byte_alphabet.h"
#include "text/normalize.h"
#include "text/reference_unicode.h"
#include "text/utf8.h"

namespace dif::text {
namespace {

TEST(Utf8, ErrorNamesTheTextTheByteAndTheOffset) {
  const auto status = check_utf8("caf\xe9 au lait", "prompt");
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kInvalidInput);
  EXPECT_EQ(status.error().message, "prompt: byte 0xe9 at offset 3 is not UTF-8; save the text as UTF-8");
}

TEST(Utf8, EveryCodePointSurvivesEncodingAndDecoding) {
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xd800 && c < 0xe000) continue;
    std::string text = "x";
    append_utf8(text, c);
    ASSERT_TRUE(check_utf8(text, "text"));
    std::size_t offset = 1;
    ASSERT_EQ(next_code_point(text, offset), c);
    ASSERT_EQ(offset, text.size());
    ASSERT_EQ(previous_boundary(text, text.size()), 1U);
  }
}

TEST(Utf8, WhiteSpaceIsTheUnicodePropertyOf25Characters) {
  int count = 0;
  for (char32_t c = 0; c < 0x110000; ++c) count += is_white_space(c) ? 1 : 0;
  EXPECT_EQ(count, 25);
  EXPECT_FALSE(is_white_space(0x180e));
  EXPECT_FALSE(is_white_space(0x200b));
  EXPECT_TRUE(is_white_space(0x85));
}

TEST(ByteAlphabet, EveryByteHasItsOwnPrintableCharacter) {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes.push_back(static_cast<char>(byte));
  EXPECT_EQ(symbols_to_bytes(bytes_to_symbols(bytes)), bytes);
  EXPECT_EQ(bytes_to_symbols(" a\n"), "\u0120a\u010a");
  EXPECT_EQ(byte_symbol(0), U'\u0100');
  EXPECT_EQ(byte_symbol(0xad), U'\u0143');
}

TEST(ByteAlphabet, CharactersOutsideAreNotBytes) {
  EXPECT_EQ(symbols_to_bytes(" "), std::nullopt);
  EXPECT_EQ(symbols_to_bytes("a\u0144"), std::nullopt);
  EXPECT_EQ(symbols_to_bytes("\u00ad"), std::nullopt);
  EXPECT_EQ(symbols_to_bytes("\U0001f600"), std::nullopt);
}

TEST(Nfc, ComposesAndOrdersMarks) {
  EXPECT_EQ(nfc("e\u0301"), "\u00e9");
  EXPECT_EQ(nfc("a\u0302\u0323"), "\u1ead");
  EXPECT_EQ(nfc("q\u0307\u0323"), "q\u0323\u0307");
  EXPECT_EQ(nfc("\u1112\u1161\u11ab"), "\ud55c");
  EXPECT_EQ(nfc("\u212b"), "\u00c5");
  EXPECT_EQ(nfc(std::string_view("nul\0e\u0301", 7)), std::string("nul\0\u00e9", 6));
}

TEST(Nfc, HangulEndsWhereTheStandardSays) {
  EXPECT_EQ(nfc("\u1109\u1165\u11a7"), "\uc11c\u11a7");  // one before the first trailing consonant
  EXPECT_EQ(nfc("\u1109\u1165\u11a8"), "\uc11d");
  EXPECT_EQ(nfc("\u1109\u1165\u11c2"), "\uc137");
  EXPECT_EQ(nfc("\u1109\u1165\u11c3"), "\uc11c\u11c3");
  EXPECT_EQ(nfc("\u1112\u1175"), "\ud788");
  EXPECT_EQ(nfc("\u1113\u1161"), "\u1113\u1161");
  EXPECT_EQ(nfc("\u1112\u1176"), "\u1112\u1176");
  EXPECT_EQ(nfc("\uac01\u11a8"), "\uac01\u11a8");
}

TEST(Nfc, CompositionExclusionsStayApart) {
  EXPECT_EQ(nfc("\u0958"), "\u0915\u093c");
  EXPECT_EQ(nfc("\u0344"), "\u0308\u0301");
  EXPECT_EQ(nfc("\U0001d15e"), "\U0001d157\U0001d165");
}

TEST(Nfc, MarksThatTheReferenceDoesNotKnowStayWhereTheyStand) {
  EXPECT_TRUE(is_unknown_to_nfc(0x1ac0));
  EXPECT_EQ(nfc("a\u0301\u1ac0"), "\u00e1\u1ac0");
  EXPECT_EQ(nfc("a\u0345\u1abf\u0301"),
            "a\u0345\u1abf\u0301");                  // otherwise: a 1abf 0301 0345, and a 0301 composes
  EXPECT_EQ(nfc("a\u1abf\u0301"), "a\u1abf\u0301");  // otherwise: a-acute 1abf
  EXPECT_EQ(nfc("\U00011935\U00011930"), "\U00011935\U00011930");
  EXPECT_EQ(nfc("\U00011938"), "\U00011938");
  EXPECT_FALSE(is_unknown_to_nfc(0x301));
  EXPECT_FALSE(is_unknown_to_nfc(0x10ffff));
}

TEST(Nfc, ManyUnorderedMarksAreOrderedStably) {
  std::string text = "a", expected = "\u1ea1";  // a with dot below
  for (int i = 0; i < 100'000; ++i) text += "\u0302\u0323";
  for (int i = 0; i < 99'999; ++i) expected += "\u0323";
  for (int i = 0; i < 100'000; ++i) expected += "\u0302";
  // a + dot below + circumflex compose to one character; the marks of the same class that follow are blocked.
  expected = "\u1ead" + expected.substr(3, expected.size() - 3 - 2);
  EXPECT_TRUE(nfc(text) == expected);
}

}  // namespace
}  // namespace dif::text
