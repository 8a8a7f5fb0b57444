#include "pipelines/picture_size.h"

#include <gtest/gtest.h>

namespace dif {
namespace {

void expect_refused(std::int64_t width, std::int64_t height, Fit fit, const std::string& part) {
  const auto size = fit_size(width, height, 16, fit);
  ASSERT_FALSE(size) << width << "x" << height;
  EXPECT_EQ(size.error().code, ErrorCode::kInvalidInput);
  EXPECT_NE(size.error().message.find(part), std::string::npos) << size.error().message;
}

TEST(PictureSize, OnTheGridIsTakenAsItIs) {
  for (const Fit fit : {Fit::kExact, Fit::kRound, Fit::kPad}) {
    const auto size = fit_size(32, 8192, 16, fit);
    ASSERT_TRUE(size) << size.error().message;
    EXPECT_EQ(size->width, 32);
    EXPECT_EQ(size->drawn_width, 32);
    EXPECT_EQ(size->height, 8192);
    EXPECT_EQ(size->drawn_height, 8192);
  }
}

TEST(PictureSize, OffTheGridIsRefusedWithTheTwoNearest) {
  expect_refused(33, 32, Fit::kExact, "width 33: expected a multiple of 16; the nearest are 32 and 48");
  expect_refused(32, 47, Fit::kExact, "height 47: expected a multiple of 16; the nearest are 32 and 48");
  expect_refused(32, 5, Fit::kExact, "height 5: expected a multiple of 16; use 16");
}

TEST(PictureSize, RoundTakesTheNearestAndOfTwoTheLarger) {
  for (const auto& [asked, drawn] : {std::pair(1, 16), {7, 16}, {17, 16}, {23, 16}, {24, 32}, {25, 32}}) {
    const auto size = fit_size(asked, 16, 16, Fit::kRound);
    ASSERT_TRUE(size) << size.error().message;
    EXPECT_EQ(size->drawn_width, drawn) << asked;
    EXPECT_EQ(size->width, drawn) << asked;
  }
}

TEST(PictureSize, PadDrawsTheNextLargerAndKeepsWhatWasAsked) {
  const auto size = fit_size(17, 1, 16, Fit::kPad);
  ASSERT_TRUE(size) << size.error().message;
  EXPECT_EQ(size->drawn_width, 32);
  EXPECT_EQ(size->width, 17);
  EXPECT_EQ(size->drawn_height, 16);
  EXPECT_EQ(size->height, 1);
}

TEST(PictureSize, ZeroNegativeAndEnormousAreRefusedWhateverTheFit) {
  for (const Fit fit : {Fit::kExact, Fit::kRound, Fit::kPad})
    for (const std::int64_t side :
         {std::int64_t{0}, std::int64_t{-16}, std::int64_t{8193}, INT64_MAX, INT64_MIN})
      expect_refused(16, side, fit, "expected a multiple of 16 from 16 to 8192");
}

TEST(PictureSize, NamesAreReadBack) {
  for (const Fit fit : {Fit::kExact, Fit::kRound, Fit::kPad}) EXPECT_EQ(fit_from_name(fit_name(fit)), fit);
  EXPECT_EQ(fit_from_name("stretch"), std::nullopt);
}

TEST(CropToMiddle, KeepsTheMiddlePixels) {
  io::Image image(4, 3, 3);
  for (std::size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = static_cast<std::uint8_t>(i);
  const io::Image middle = crop_to_middle(image, 2, 1);
  EXPECT_EQ(middle.width, 2U);
  EXPECT_EQ(middle.height, 1U);
  EXPECT_EQ(middle.pixels, (std::vector<std::uint8_t>{15, 16, 17, 18, 19, 20}));
  EXPECT_EQ(crop_to_middle(image, 4, 3).pixels, image.pixels);
}

}  // namespace
}  // namespace dif
