/// Bad days that only a real GPU shows; the others are in cuda_bad_days_test.cpp.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "io/safetensors.h"
#include "tests/tools/tool_test.h"

namespace dif::test {
namespace {

namespace fs = std::filesystem;

class GpuBadDays : public ToolTest {
 protected:
  Arguments tiny(const std::string& output, const Arguments& more = {}) const {
    return Arguments{"generate",      "x",  "-o",        output, "--size",  "16x16",       "--steps",    "2",
                     "--text-tokens", "32", "--backend", "cuda", "--quiet", "--cache-dir", path("cache")} +
           more;
  }

  /// A copy of the bundled model in which one weight of the last product of a step is NaN.
  std::string model_with_nan() const {
    const fs::path model = folder_.path() / "model";
    fs::copy(model_dir(), model, fs::copy_options::recursive);
    const fs::path file = model / "transformer/diffusion_pytorch_model.safetensors";
    std::uint64_t offset = 0;
    {
      const auto opened = io::open_safetensors(file);
      EXPECT_TRUE(opened) << opened.error().message;
      offset = opened->require("proj_out.weight").value()->file_offset;
    }
    fs::permissions(file, fs::perms::owner_write, fs::perm_options::add);
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    constexpr std::uint16_t kNan = 0x7fc0;  // bf16
    stream.seekp(static_cast<std::streamoff>(offset));
    stream.write(reinterpret_cast<const char*>(&kNan), sizeof(kNan));
    EXPECT_TRUE(stream.flush());
    return model.string();
  }
};

TEST_F(GpuBadDays, NanInAStepIsNamedWithStepAndModule) {
  const std::string model = model_with_nan();
  fail("dif", tiny("a.png", {"--model", model}), 1, "denoise, step 0: ");
  fail("dif", tiny("a.png", {"--model", model}), 1, "module transformer.proj_out");
  EXPECT_FALSE(files().contains("a.png"));
}

TEST_F(GpuBadDays, WithoutTheLibrariesOfFastKernelsThereIsAPicture) {
  for (const std::string variable : {"DIF_CUBLASLT_PATH", "DIF_CUDNN_PATH"})
    succeed("dif", tiny(variable + ".png"), {{variable, path("none")}});
}

TEST_F(GpuBadDays, KeptKernelsThatAreDamagedAreMadeAnew) {
  succeed("dif", tiny("first.png", {"--no-metadata"}));
  for (const auto& entry : fs::recursive_directory_iterator(path("cache")))
    if (entry.is_regular_file()) std::ofstream(entry.path(), std::ios::binary | std::ios::trunc) << "damaged";
  succeed("dif", tiny("second.png", {"--no-metadata"}));
  EXPECT_EQ(read_text(path("first.png")), read_text(path("second.png")));
}

}  // namespace
}  // namespace dif::test
