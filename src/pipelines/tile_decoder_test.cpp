#include "pipelines/tile_decoder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "ir/builder.h"
#include "ops/reshape/reshape.op.h"
#include "ops/transpose/transpose.op.h"
#include "ops/upsample_nearest/upsample_nearest.op.h"
#include "runtime/backend_library.h"

namespace dif {
namespace {

TEST(AxisTiles, CoverTheAxisWithWeightsThatAddUpToOne) {
  for (const std::int64_t length : {1, 7, 8, 9, 12, 13, 64})
    for (const std::int64_t overlap : {0, 1, 4}) {
      const AxisTiles tiles = AxisTiles::over(length, 8, overlap, 3);
      EXPECT_EQ(tiles.size, std::min<std::int64_t>(length, 8));
      std::vector<float> total(static_cast<std::size_t>(3 * length));
      for (std::size_t i = 0; i < tiles.first.size(); ++i) {
        if (i != 0) {
          EXPECT_GE(tiles.first[i - 1] + tiles.size - tiles.first[i], overlap);
        }
        ASSERT_EQ(tiles.weights[i].size(), static_cast<std::size_t>(3 * tiles.size));
        for (std::size_t p = 0; p < tiles.weights[i].size(); ++p) {
          EXPECT_GT(tiles.weights[i][p], 0.0f);
          total[static_cast<std::size_t>(3 * tiles.first[i]) + p] += tiles.weights[i][p];
        }
      }
      for (const float sum : total) EXPECT_NEAR(sum, 1.0f, 1e-6f) << "length " << length;
    }
}

TEST(AxisTiles, OneGoesOverIntoTheNextInAStraightLine) {
  const AxisTiles tiles = AxisTiles::over(12, 8, 4, 1);
  ASSERT_EQ(tiles.first, (std::vector<std::int64_t>{0, 4}));
  EXPECT_EQ(tiles.weights[0], (std::vector<float>{1, 1, 1, 1, 0.875f, 0.625f, 0.375f, 0.125f}));
}

TEST(TileSizes, AreWholePositionsOfTheLatents) {
  const auto sizes = tile_sizes({DecodeWay::kTiles, 512, 64}, 40, 16, 16);
  ASSERT_TRUE(sizes) << sizes.error().message;
  EXPECT_EQ(sizes->tile_rows, 32);
  EXPECT_EQ(sizes->tile_columns, 16) << "no more than the picture";
  EXPECT_EQ(sizes->overlap, 4);
  for (const DecodeOptions& wrong :
       {DecodeOptions{DecodeWay::kTiles, 500, 64}, DecodeOptions{DecodeWay::kTiles, 0, 0},
        DecodeOptions{DecodeWay::kTiles, 512, 272}, DecodeOptions{DecodeWay::kTiles, 512, 8}}) {
    const auto refused = tile_sizes(wrong, 40, 16, 16);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidInput);
  }
  const auto refused = tile_sizes({DecodeWay::kTiles, 48, 32}, 40, 16, 16);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("0 to 16"), std::string::npos) << refused.error().message;
}

/// A decode of one position into one pixel of three colours gives the same picture in tiles.
TEST(TileDecoder, PutsEveryPositionInItsPlace) {
  constexpr std::int64_t kRows = 9, kColumns = 13;
  const auto decode_of = [](std::int64_t rows, std::int64_t columns) {
    ir::Builder b("decode");
    const ir::Value x = b.input("latents", {DType::kF32, {1, rows * columns, 3}});
    const ir::Value image = ops::reshape(b, ops::transpose(b, x, {0, 2, 1}), {1, 3, rows, columns});
    b.output("image", ops::upsample_nearest(b, image, 2));
    auto program = b.finish();
    EXPECT_TRUE(program) << program.error().message;
    return std::move(*program);
  };
  auto library = runtime::BackendLibrary::load_by_name("reference");
  ASSERT_TRUE(library) << library.error().message;
  auto context = runtime::Context::create(*library, {});
  ASSERT_TRUE(context) << context.error().message;
  const PrepareProgram prepare = [&](const ir::Program& program) {
    return runtime::PreparedProgram::prepare(*context, program, {});
  };
  std::vector<float> latents(kRows * kColumns * 3), expected(4 * latents.size()), image(expected.size());
  std::iota(latents.begin(), latents.end(), 0.0f);
  const auto bytes = std::as_writable_bytes(std::span(latents));
  auto whole = make_whole_decoder(decode_of(kRows, kColumns), "", prepare);
  ASSERT_TRUE(whole) << whole.error().message;
  ASSERT_TRUE((*whole)->run(bytes, expected, false));
  const TileSizes sizes = {kRows, kColumns, 4, 6, 1, 2};
  auto tiles = make_tile_decoder(decode_of(4, 6), sizes, "asked for", prepare);
  ASSERT_TRUE(tiles) << tiles.error().message;
  EXPECT_EQ((*tiles)->parts().front().runs, 9);
  ASSERT_TRUE((*tiles)->run(bytes, image, false));
  for (std::size_t i = 0; i < image.size(); ++i) EXPECT_NEAR(image[i], expected[i], 1e-4f) << i;
  EXPECT_TRUE((*tiles)->find_nonfinite(bytes, image));
  latents.back() = NAN;
  const Status status = (*tiles)->find_nonfinite(bytes, image);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kNonFinite);
  EXPECT_EQ(status.error().message.rfind("program decode: ", 0), 0U) << status.error().message;
  EXPECT_NE(status.error().message.find("(transpose)"), std::string::npos) << status.error().message;
}

}  // namespace
}  // namespace dif
