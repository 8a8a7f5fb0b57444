/// difcompare, difcast, difimage.
#include <bit>
#include <limits>
#include <nlohmann/json.hpp>
#include <tuple>

#include "base/float_convert.h"
#include "io/png.h"
#include "io/safetensors.h"
#include "tests/tools/tool_test.h"

namespace dif::test {
namespace {

class TensorTools : public ToolTest {
 protected:
  std::string floats(const std::string& name, const Shape& shape, const std::vector<float>& values) const {
    write(name, io::HostTensor::f32(shape, values));
    return name;
  }
};

TEST_F(TensorTools, ComparePassesWithoutBarsAndPrintsTheFigures) {
  floats("a.diftensor", {2, 2}, {1, 2, 3, 4});
  floats("b.diftensor", {2, 2}, {1, 2, 3, 5});
  const std::string out = succeed("difcompare", {"a.diftensor", "b.diftensor"});
  EXPECT_EQ(out.rfind("PASS cos 0.99", 0), 0U) << out;
  EXPECT_NE(out.find("max_abs 1 at [1, 1] (4 is 5)"), std::string::npos) << out;
}

TEST_F(TensorTools, CompareFailsWithStatusOneWhenABarIsBroken) {
  floats("a.diftensor", {2}, {3, 4});
  floats("b.diftensor", {2}, {6, 8});
  const auto judge = [&](const std::string& bar, const std::string& value) {
    return run("difcompare", {"a.diftensor", "b.diftensor", bar, value});
  };
  for (const auto& [bar, within, beyond] :
       {std::tuple("--min-cos", "0.999999", "1.1"), std::tuple("--max-rel-l2", "1", "0.9"),
        std::tuple("--min-norm-ratio", "2", "2.1"), std::tuple("--max-norm-ratio", "2", "1.9"),
        std::tuple("--max-abs", "4", "3.9")}) {
    EXPECT_EQ(judge(bar, within).status, 0) << bar;
    const Finished failed = judge(bar, beyond);
    EXPECT_EQ(failed.status, 1) << bar;
    EXPECT_EQ(failed.out.rfind("FAIL ", 0), 0U) << failed.out;
    EXPECT_EQ(failed.err.rfind("error: ", 0), 0U) << failed.err;
  }
}

TEST_F(TensorTools, CompareNeverPassesWhatIsNotFinite) {
  floats("a.diftensor", {2}, {1, 2});
  floats("nan.diftensor", {2}, {1, std::numeric_limits<float>::quiet_NaN()});
  floats("inf.diftensor", {2}, {std::numeric_limits<float>::infinity(), 2});
  for (const char* bad : {"nan.diftensor", "inf.diftensor"}) {
    EXPECT_EQ(run("difcompare", {"a.diftensor", bad}).status, 1);
    EXPECT_EQ(run("difcompare", {bad, bad}).status, 1);
  }
}

TEST_F(TensorTools, CompareWritesOneComparisonDocument) {
  floats("a.diftensor", {2}, {1, 2});
  floats("b.diftensor", {2}, {1, 4});
  const Finished finished =
      run("difcompare", {"a.diftensor", "b.diftensor", "--max-abs", "1", "--json", "--report", "r.json"});
  EXPECT_EQ(finished.status, 1);
  EXPECT_EQ(finished.out, read_text(path("r.json")));
  const auto document = nlohmann::json::parse(finished.out);
  EXPECT_EQ(document.at("kind"), "comparison");
  EXPECT_EQ(document.at("verdict"), "FAIL");
  EXPECT_EQ(document.at("max_abs"), 2);
  EXPECT_EQ(document.at("bars").at("max_abs"), 1);
  EXPECT_TRUE(document.at("bars").at("min_cos").is_null());
  EXPECT_EQ(document.at("worst").at("index"), nlohmann::json::array({1}));
}

TEST_F(TensorTools, CompareReadsTensorsOfSafetensorsFiles) {
  const std::string file = fixture("emoji-klein/red-heart.safetensors");
  const std::string same = fixture("emoji-klein/frog-light-blue.safetensors");
  succeed("difcompare", {file + "::sigmas", same + "::sigmas", "--max-abs", "0"});
  EXPECT_EQ(run("difcompare", {file + "::latents_steps", same + "::latents_steps", "--max-abs", "0"}).status,
            1);
  fail("difcompare", {file + "::nothing", same + "::sigmas"}, 2, "no tensor \"nothing\"");
  fail("difcompare", {file, same + "::sigmas"}, 2, file);
}

TEST_F(TensorTools, CompareNeedsFlattenForOtherShapes) {
  floats("a.diftensor", {2, 2}, {1, 2, 3, 4});
  floats("b.diftensor", {4}, {1, 2, 3, 4});
  floats("c.diftensor", {3}, {1, 2, 3});
  fail("difcompare", {"a.diftensor", "b.diftensor"}, 2, "--flatten");
  succeed("difcompare", {"a.diftensor", "b.diftensor", "--flatten", "--max-abs", "0"});
  fail("difcompare", {"a.diftensor", "c.diftensor", "--flatten"}, 2, "4 elements");
}

TEST_F(TensorTools, CompareRefusesBadCommandLines) {
  floats("a.diftensor", {1}, {1});
  fail("difcompare", {"a.diftensor"}, 2, "ACTUAL");
  fail("difcompare", {"a.diftensor", "a.diftensor", "--min-cos", "high"}, 2, "--min-cos");
  fail("difcompare", {"a.diftensor", "a.diftensor", "--tolerance", "1"}, 2, "--tolerance");
  fail("difcompare", {"/nowhere.diftensor", "a.diftensor"}, 2, "/nowhere.diftensor");
}

// --- difcast ----------------------------------------------------------------------------------------------

TEST_F(TensorTools, CastRoundsToNearestEven) {
  const std::uint32_t tie_down = 0x3f808000, tie_up = 0x3f818000;  // halfway between neighbours of bf16
  floats("a.diftensor", {2}, {std::bit_cast<float>(tie_down), std::bit_cast<float>(tie_up)});
  EXPECT_EQ(succeed("difcast", {"a.diftensor", "b.diftensor", "bf16"}), "b.diftensor bf16[2]\n");
  const auto result = io::read_tensor_file(path("b.diftensor"));
  ASSERT_TRUE(result);
  EXPECT_EQ(result->as<std::uint16_t>()[0], 0x3f80);
  EXPECT_EQ(result->as<std::uint16_t>()[1], 0x3f82);
}

TEST_F(TensorTools, CastThereAndBackKeepsWhatTheNarrowFormatHolds) {
  floats("a.diftensor", {2, 2}, {0.5f, -3, 1024, 0});
  for (const char* dtype : {"bf16", "f16"}) {
    succeed("difcast", {"a.diftensor", "half.diftensor", dtype});
    succeed("difcast", {"half.diftensor", "back.diftensor", "f32"});
    succeed("difcompare", {"a.diftensor", "back.diftensor", "--max-abs", "0"});
  }
}

TEST_F(TensorTools, CastReshapesWhenDimensionsAreGiven) {
  floats("a.diftensor", {2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(succeed("difcast", {"a.diftensor", "b.diftensor", "f32", "3", "1", "2"}),
            "b.diftensor f32[3, 1, 2]\n");
  fail("difcast", {"a.diftensor", "b.diftensor", "f32", "7"}, 2,
       "[2, 3] has 6 elements, the shape [7] does not");
  fail("difcast", {"a.diftensor", "b.diftensor", "f32", "1", "1", "1", "1", "1", "1", "1", "1", "6"}, 2,
       "at most 8 are possible");
  fail("difcast", {"a.diftensor", "b.diftensor", "f32", "9223372036854775807", "9223372036854775807"}, 2,
       "does not");
}

TEST_F(TensorTools, CastWarnsWhenValuesOverflow) {
  floats("a.diftensor", {2}, {1, 1e6f});
  const Finished finished = run("difcast", {"a.diftensor", "b.diftensor", "f16"});
  EXPECT_EQ(finished.status, 0);
  EXPECT_NE(finished.err.find("1 values are too large for f16"), std::string::npos) << finished.err;
}

TEST_F(TensorTools, CastRefusesOtherFormatsAndTargets) {
  floats("a.diftensor", {1}, {1});
  fail("difcast", {"a.diftensor", "b.diftensor", "int8"}, 2, "int8 not in");
  fail("difcast", {"a.diftensor", "b.diftensor"}, 2, "DTYPE");
  fail("difcast", {"a.diftensor", "/nowhere/b.diftensor", "f32"}, 2, "/nowhere");
  fail("difcast", {"missing.diftensor", "b.diftensor", "f32"}, 2, "missing.diftensor");
}

// --- difimage ---------------------------------------------------------------------------------------------

TEST_F(TensorTools, ImageDrawsTheDecodedFixtureAsTheReferenceDid) {
  const std::string file = fixture("emoji-klein/red-heart.safetensors");
  EXPECT_EQ(succeed("difimage", {file + "::image", "frames"}), "frames/frame-00000.png\n");
  const auto drawn = io::read_png(path("frames/frame-00000.png"));
  const auto expected = io::read_png(fixture("emoji-klein/red-heart.png"));
  ASSERT_TRUE(drawn && expected);
  EXPECT_EQ(drawn->pixels, expected->pixels);
  succeed("difimage", {file + "::image_u8", "levels"});
  EXPECT_EQ(io::read_png(path("levels/frame-00000.png"))->pixels, expected->pixels);
}

TEST_F(TensorTools, ImageWritesOneFilePerFrameInEitherFormat) {
  floats("film.diftensor", {3, 3, 2, 2}, std::vector<float>(36, 0));
  EXPECT_EQ(succeed("difimage", {"film.diftensor", "a/b", "--format", "bmp"}),
            "a/b/frame-00000.bmp\na/b/frame-00001.bmp\na/b/frame-00002.bmp\n");
  EXPECT_EQ(read_text(path("a/b/frame-00002.bmp")).substr(0, 2), "BM");
}

TEST_F(TensorTools, ImageRefusesWhatIsNoPicture) {
  floats("flat.diftensor", {4}, {1, 2, 3, 4});
  floats("nan.diftensor", {3, 1, 1}, {0, std::numeric_limits<float>::quiet_NaN(), 0});
  fail("difimage", {"flat.diftensor", "out"}, 2, "flat.diftensor");
  fail("difimage", {"nan.diftensor", "out"}, 1, "NaN or infinite");
  succeed("difimage", {"nan.diftensor", "out", "--allow-nonfinite"});
  fail("difimage", {"nan.diftensor", "nan.diftensor", "--allow-nonfinite"}, 2, "cannot be created");
  fail("difimage", {"nan.diftensor", "out", "--format", "gif"}, 2, "gif not in");
}

}  // namespace
}  // namespace dif::test
