#include "cli/dtype_options.h"

#include <gtest/gtest.h>

namespace dif::cli {
namespace {

DType auto_of(const std::string& probe, int device = 0) {
  std::string choice;
  const DType dtype = auto_dtype(probe, "cpu", device, &choice);
  EXPECT_EQ(choice.rfind("auto: ", 0), 0U) << choice;
  return dtype;
}

TEST(DtypeOptions, AutoIsWhatTheDeviceNames) {
  const std::string probe =
      R"({"devices":[{"name":"a","default_dtype":"bf16"},{"name":"b","default_dtype":"f32"}]})";
  EXPECT_EQ(auto_of(probe), DType::kBF16);
  EXPECT_EQ(auto_of(probe, 1), DType::kF32);
}

TEST(DtypeOptions, AutoIsF32WhereADocumentNamesNothingUsable) {
  for (const char* probe :
       {"", "{", "[]", "7", R"({"devices":7})", R"({"devices":[]})", R"({"devices":[7]})",
        R"({"devices":[{}]})", R"({"devices":[{"default_dtype":7}]})",
        R"({"devices":[{"default_dtype":"f9"}]})", R"({"devices":[{"default_dtype":"i32"}]})"})
    EXPECT_EQ(auto_of(probe), DType::kF32) << probe;
  EXPECT_EQ(auto_of(R"({"devices":[{"default_dtype":"bf16"}]})", 1), DType::kF32);
}

TEST(DtypeOptions, AnUnknownNameIsRefusedWithTheLegalOnes) {
  const auto refused = parse_dtype("--dtype", "f8", {DType::kF32, DType::kBF16});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "--dtype f8: expected one of f32, bf16");
  EXPECT_EQ(parse_dtype("--dtype", "bf16", {DType::kF32, DType::kBF16}).value(), DType::kBF16);
}

}  // namespace
}  // namespace dif::cli
