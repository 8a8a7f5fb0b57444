#include "io/png.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <cstring>

#include "io/bmp.h"
#include "io/test_files.h"
#include "tests/support/paths.h"

namespace dif::io {
namespace {

Image gradient(std::uint32_t width, std::uint32_t height, int channels) {
  Image image(width, height, channels);
  for (std::size_t i = 0; i < image.pixels.size(); ++i)
    image.pixels[i] = static_cast<std::uint8_t>(i * 7 + i / 31);
  return image;
}

void append_u32(std::string& out, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift);
}

std::string chunk(const std::string& type, const std::string& content) {
  std::string out;
  append_u32(out, static_cast<std::uint32_t>(content.size()));
  out += type + content;
  const std::string summed = type + content;
  append_u32(out, static_cast<std::uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(summed.data()),
                                                   static_cast<uInt>(summed.size()))));
  return out;
}

/// A PNG of `content` chunks around the pixels of `raw` (already with filter bytes).
std::vector<std::byte> png_of(std::uint32_t width, std::uint32_t height, char depth, char color,
                              const std::string& raw, const std::string& before = "",
                              const std::string& after = "") {
  std::string header;
  append_u32(header, width);
  append_u32(header, height);
  header += depth;
  header += color;
  header += std::string(3, '\0');
  uLongf bytes = compressBound(static_cast<uLong>(raw.size()));
  std::string packed(bytes, '\0');
  compress(reinterpret_cast<Bytef*>(packed.data()), &bytes, reinterpret_cast<const Bytef*>(raw.data()),
           static_cast<uLong>(raw.size()));
  packed.resize(bytes);
  return as_bytes("\x89PNG\r\n\x1a\n" + chunk("IHDR", header) + before + chunk("IDAT", packed) + after +
                  chunk("IEND", ""));
}

TEST(Png, PixelsComeBack) {
  for (const int channels : {1, 3, 4}) {
    const Image image = gradient(37, 11, channels);
    const auto file = encode_png(image);
    ASSERT_TRUE(file);
    const auto again = decode_png(*file, "a.png");
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(again->width, 37U);
    EXPECT_EQ(again->height, 11U);
    EXPECT_EQ(again->channels, channels);
    EXPECT_EQ(again->pixels, image.pixels);
    EXPECT_EQ(*encode_png(image), *file);
  }
}

/// Bands end in the middle of such a picture, and each has its own difference from the row above.
TEST(Png, PixelsOfManyBandsComeBack) {
  const Image image = gradient(700, 1300, 3);
  const auto file = encode_png(image);
  ASSERT_TRUE(file);
  EXPECT_EQ(decode_png(*file, "a.png")->pixels, image.pixels);
  EXPECT_EQ(*encode_png(image), *file);
}

/// Every byte of the rows through zlib's own checks: header, one stream, its checksum.
TEST(Png, BandsAreOneZlibStream) {
  const Image image = gradient(700, 1300, 3);
  const auto file = encode_png(image);
  ASSERT_TRUE(file);
  std::string packed;
  for (std::size_t at = 8; at < file->size();) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(file->data() + at);
    const std::size_t length = std::size_t{bytes[0]} << 24 | bytes[1] << 16 | bytes[2] << 8 | bytes[3];
    if (std::memcmp(bytes + 4, "IDAT", 4) == 0)
      packed.append(reinterpret_cast<const char*>(bytes + 8), length);
    at += length + 12;
  }
  std::vector<Bytef> rows(1300 * (700 * 3 + 1));
  uLongf found = rows.size();
  uLong read = packed.size();
  ASSERT_EQ(uncompress2(rows.data(), &found, reinterpret_cast<const Bytef*>(packed.data()), &read), Z_OK);
  EXPECT_EQ(found, rows.size());
  EXPECT_EQ(read, packed.size());
}

TEST(Png, NoiseIsHardlyLargerThanItsPixels) {
  Image image(512, 512, 3);
  std::uint32_t state = 1;
  for (std::uint8_t& value : image.pixels)
    value = static_cast<std::uint8_t>((state = state * 1664525 + 1013904223) >> 24);
  const auto file = encode_png(image);
  ASSERT_TRUE(file);
  EXPECT_LT(file->size(), image.pixels.size() * 1.01);
  EXPECT_EQ(decode_png(*file, "a.png")->pixels, image.pixels);
}

TEST(Png, ChannelsCanBeAskedFor) {
  const auto grey = encode_png(gradient(2, 1, 1));
  EXPECT_EQ(decode_png(*grey, "g", {.channels = 3})->pixels, (std::vector<std::uint8_t>{0, 0, 0, 7, 7, 7}));
  const auto rgba = encode_png(gradient(1, 1, 4));
  EXPECT_EQ(decode_png(*rgba, "g", {.channels = 3})->pixels, (std::vector<std::uint8_t>{0, 7, 14}));
  EXPECT_EQ(decode_png(*grey, "g", {.channels = 4})->pixels,
            (std::vector<std::uint8_t>{0, 0, 0, 255, 7, 7, 7, 255}));
}

TEST(Png, ReadsSixteenBitPaletteAndTransparency) {
  using Pixels = std::vector<std::uint8_t>;
  const auto deep = png_of(1, 1, 16, 2, std::string("\0\x12\x34\xab\xcd\xff\xff", 7));
  EXPECT_EQ(decode_png(deep, "d")->pixels, (Pixels{0x12, 0xab, 0xff}));
  const auto palette =
      png_of(2, 1, 8, 3, std::string("\0\1\0", 3), chunk("PLTE", std::string("\1\2\3\4\5\6", 6)));
  EXPECT_EQ(decode_png(palette, "p")->pixels, (Pixels{4, 5, 6, 1, 2, 3}));
  const auto clear =
      png_of(2, 1, 8, 3, std::string("\0\1\0", 3),
             chunk("PLTE", std::string("\1\2\3\4\5\6", 6)) + chunk("tRNS", std::string("\x80", 1)));
  EXPECT_EQ(decode_png(clear, "c")->pixels, (Pixels{4, 5, 6, 255, 1, 2, 3, 128}));
}

TEST(Png, TextsComeBackInUtf8) {
  const std::vector<PngText> texts = {
      {"parameters", "a red apple\nSteps: 20"}, {"prompt", "ein Äpfelchen 🍎"}, {"e", ""}};
  const auto file = encode_png(gradient(3, 3, 3), texts);
  ASSERT_TRUE(file);
  const auto again = decode_png_text(*file, "a.png");
  ASSERT_TRUE(again) << again.error().message;
  ASSERT_EQ(again->size(), 2U);  // an empty text is left out
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ((*again)[i].keyword, texts[i].keyword);
    EXPECT_EQ((*again)[i].text, texts[i].text);
  }
  const std::string raw(reinterpret_cast<const char*>(file->data()), file->size());
  EXPECT_NE(raw.find("tEXtparameters"), std::string::npos);
  EXPECT_NE(raw.find("iTXtprompt"), std::string::npos);
}

TEST(Png, ReadsTextsOfOtherPrograms) {
  const std::string pixels("\0\1\2\3", 4);
  const auto latin = png_of(1, 1, 8, 2, pixels, chunk("tEXt", std::string("Author\0Ren\xe9", 11)));
  EXPECT_EQ(decode_png_text(latin, "l")->at(0).text, "René");
  const auto behind = png_of(1, 1, 8, 2, pixels, "", chunk("tEXt", std::string("k\0late", 6)));
  EXPECT_EQ(decode_png_text(behind, "b")->at(0).text, "late");
  EXPECT_TRUE(decode_png_text(png_of(1, 1, 8, 2, pixels), "n")->empty());
  const auto bad = png_of(1, 1, 8, 2, pixels, chunk("iTXt", std::string("k\0\0\0\0\0\xff", 7)));
  expect_refused(decode_png_text(bad, "bad.png"), ErrorCode::kInvalidInput,
                 {"bad.png", "\"k\" is not UTF-8"});
}

TEST(Png, RefusesTextsThatThePngFormatCannotHold) {
  const auto refused = [](const PngText& text, const std::string& part) {
    expect_refused(encode_png(gradient(1, 1, 3), std::span(&text, 1)), ErrorCode::kInvalidInput, {part});
  };
  refused({"", "x"}, "keyword");
  refused({std::string(80, 'k'), "x"}, "1 to 79");
  refused({" k", "x"}, "spare spaces");
  refused({"a  b", "x"}, "spare spaces");
  refused({"k\n", "x"}, "printable ASCII");
  refused({"k", std::string("a\0b", 3)}, "NUL byte at offset 1");
  refused({"k", "a\xff"}, "not UTF-8 at byte 1");
}

TEST(Png, RefusesWhatIsNoPicture) {
  expect_refused(encode_png(Image(0, 5, 3)), ErrorCode::kInvalidInput, {"0 x 5"});
  expect_refused(encode_png(Image(5, 5, 2)), ErrorCode::kInvalidInput, {"2 channels"});
  expect_refused(decode_png({}, "a.png"), ErrorCode::kInvalidInput, {"a.png is empty"});
  expect_refused(decode_png(as_bytes("GIF89a and so on"), "a.png"), ErrorCode::kInvalidInput,
                 {"a.png is not a PNG"});
}

TEST(Png, RefusesEveryTruncationAndNeverBreaksOnAChange) {
  const std::vector<PngText> texts = {{"k", "ä"}};
  const auto good = *encode_png(gradient(9, 5, 3), texts);
  const Image pixels = *decode_png(good, "a");
  for (std::size_t bytes = 0; bytes + 12 < good.size(); ++bytes)  // the last chunk holds nothing
    EXPECT_FALSE(decode_png(std::span(good).first(bytes), "a")) << bytes;
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (const int flip : {0x01, 0x20, 0x80, 0xff}) {
      auto bad = good;
      bad[at] ^= static_cast<std::byte>(flip);
      const auto image = decode_png(bad, "a");
      EXPECT_TRUE(!image || image->pixels == pixels.pixels) << at;
      (void)decode_png_text(bad, "a");
    }
  }
}

TEST(Png, KeepsToItsLimits) {
  const auto file = encode_png(gradient(100, 50, 1));
  EXPECT_TRUE(decode_png(*file, "a", {.max_width = 100, .max_height = 50, .max_pixels = 5000}));
  expect_refused(decode_png(*file, "a", {.max_width = 99}), ErrorCode::kInvalidInput, {"wider or higher"});
  expect_refused(decode_png(*file, "a", {.max_height = 49}), ErrorCode::kInvalidInput, {"wider or higher"});
  expect_refused(decode_png(*file, "a", {.max_pixels = 4999}), ErrorCode::kInvalidInput,
                 {"100 x 50", "4999"});
  // A claim of 16384 x 16384 in a small file is refused before memory is taken for it.
  expect_refused(decode_png(png_of(16384, 16384, 8, 2, "x"), "huge.png"), ErrorCode::kInvalidInput,
                 {"16384 x 16384"});
}

TEST(Png, ACompressedTextCannotGrowWithoutBound) {
  const std::string text(64 << 20, 'x');
  uLongf bytes = compressBound(static_cast<uLong>(text.size()));
  std::string packed(bytes, '\0');
  compress(reinterpret_cast<Bytef*>(packed.data()), &bytes, reinterpret_cast<const Bytef*>(text.data()),
           static_cast<uLong>(text.size()));
  packed.resize(bytes);
  const auto bomb =
      png_of(1, 1, 8, 2, std::string("\0\1\2\3", 4), chunk("zTXt", std::string("k\0\0", 3) + packed));
  expect_refused(decode_png_text(bomb, "bomb.png"), ErrorCode::kInvalidInput, {"bomb.png"});
}

TEST(Png, WritesAndReadsFiles) {
  const test::ScratchDir dir;
  const std::vector<PngText> texts = {{"parameters", "x"}};
  ASSERT_TRUE(write_png(dir / "a.png", gradient(4, 4, 3), texts));
  EXPECT_EQ(read_png(dir / "a.png")->pixels, gradient(4, 4, 3).pixels);
  EXPECT_EQ(read_png_text(dir / "a.png")->at(0).text, "x");
  expect_refused(write_png(dir / "no" / "a.png", gradient(4, 4, 3)), ErrorCode::kIo,
                 {"no/a.png", "does not exist"});
  expect_refused(write_png(dir / "b.png", Image()), ErrorCode::kInvalidInput, {"b.png", "0 x 0"});
  expect_refused(read_png(dir / "c.png"), ErrorCode::kNotFound, {"c.png"});
  expect_refused(read_png(dir / "a.png", {.max_file_bytes = 20}), ErrorCode::kInvalidInput,
                 {"longer than 20"});
}

TEST(Bmp, StoresRowsFromTheBottomAsBlueGreenRed) {
  Image image(1, 2, 3);
  image.pixels = {1, 2, 3, 4, 5, 6};
  const auto file = encode_bmp(image);
  ASSERT_TRUE(file);
  ASSERT_EQ(file->size(), 54U + 8U);
  EXPECT_EQ(
      std::memcmp(file->data(), "BM\x3e\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0\1\0\0\0\2\0\0\0\1\0\x18\0", 30), 0);
  EXPECT_EQ(std::memcmp(file->data() + 54, "\6\5\4\0\3\2\1\0", 8), 0);
  EXPECT_EQ(encode_bmp(gradient(1, 1, 1))->at(54), encode_bmp(gradient(1, 1, 1))->at(56));
  EXPECT_TRUE(encode_bmp(gradient(5, 5, 4)));
}

TEST(Bmp, RefusesWhatItsSizesCannotSay) {
  const test::ScratchDir dir;
  expect_refused(encode_bmp(Image()), ErrorCode::kInvalidInput, {"0 x 0"});
  Image huge;
  huge.width = huge.height = 40'000;
  expect_refused(encode_bmp(huge), ErrorCode::kInvalidInput, {"40000 x 40000"});
  ASSERT_TRUE(write_bmp(dir / "a.bmp", gradient(3, 2, 3)));
  EXPECT_EQ(names_in(dir.path()), std::vector<std::string>{"a.bmp"});
}

}  // namespace
}  // namespace dif::io
