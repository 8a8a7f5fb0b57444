#include "io/digest.h"

#include <gtest/gtest.h>

#include <string>

#include "io/printable.h"

namespace dif::io {
namespace {

// The two vectors of FIPS 180-4's examples, and the empty text.
TEST(Sha256, AgreesWithPublishedVectors) {
  EXPECT_EQ(hex(sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hex(sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(Sha256, DoesNotDependOnHowTheBytesAreCut) {
  const std::string text(100'000, 'x');
  Sha256 hash;
  for (std::size_t at = 0, step = 1; at < text.size(); at += step, step = step * 3 % 1009 + 1)
    hash.update(std::string_view(text).substr(at, step));
  EXPECT_EQ(hash.finish(), sha256(text));
}

TEST(DigestFromHex, ReadsWhatHexWritesAndNothingElse) {
  const Digest digest = sha256("abc");
  const std::string text = hex(digest);
  EXPECT_EQ(digest_from_hex(text), digest);
  EXPECT_FALSE(digest_from_hex(text.substr(1)));
  EXPECT_FALSE(digest_from_hex(text + "0"));
  std::string upper = text, other = text;
  upper[0] = 'B';
  other[63] = 'g';
  EXPECT_FALSE(digest_from_hex(upper));
  EXPECT_FALSE(digest_from_hex(other));
}

TEST(Printable, KeepsTextAndSpellsControlsAndBadBytes) {
  EXPECT_EQ(printable("blocks.0.weight"), "blocks.0.weight");
  EXPECT_EQ(printable("größe 苹果"), "größe 苹果");
  EXPECT_EQ(printable("a\x1b[31m\n\x7f"), "a\\x1b[31m\\x0a\\x7f");
  EXPECT_EQ(printable("\xc2\x9b"), "\\xc2\\x9b");
  EXPECT_EQ(printable("\xff\xc3"), "\\xff\\xc3");
  EXPECT_EQ(printable(std::string(500, 'a'), 10), "aaaaaaaaaa...");
}

TEST(FirstInvalidUtf8, FindsWhatUnicodeForbids) {
  EXPECT_EQ(first_invalid_utf8("aé苹😀"), std::string_view("aé苹😀").size());
  EXPECT_EQ(first_invalid_utf8("a\xc0\x80"), 1U);         // overlong
  EXPECT_EQ(first_invalid_utf8("ab\xed\xa0\x80"), 2U);    // surrogate
  EXPECT_EQ(first_invalid_utf8("\xf4\x90\x80\x80"), 0U);  // above U+10FFFF
  EXPECT_EQ(first_invalid_utf8("abc\xe8\x8b"), 3U);       // cut
  EXPECT_EQ(first_invalid_utf8("\x80"), 0U);              // continuation without a lead
}

}  // namespace
}  // namespace dif::io
