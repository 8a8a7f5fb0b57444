/// The OpenCL backend as a user meets it. Needs an OpenCL device; PoCL is one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "io/png.h"
#include "tests/tools/tool_test.h"

namespace dif::test {
namespace {

using Arguments = std::vector<std::string>;

class OpenCl : public ToolTest {
 protected:
  io::Image draw(const Arguments& more, const Running::Environment& environment = {}) const {
    Arguments arguments = {"generate", "a red apple", "--quiet"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    succeed("dif", arguments, environment);
    auto image = io::read_png(path(more.back()));
    EXPECT_TRUE(image) << image.error().message;
    return image ? std::move(*image) : io::Image();
  }
};

/// Seen: 7 of 49152 values differ, by one level.
TEST_F(OpenCl, DrawsThePictureOfTheCpuAndAgainFromKeptKernels) {
  const io::Image want =
      draw({"--backend", "cpu", "--dtype", "f32", "-o", "cpu.png"}, {{"OMP_WAIT_POLICY", "passive"}});
  const Arguments opencl = {"--backend", "opencl", "--cache-dir", "cache", "-o"};
  const io::Image first = draw(Arguments{opencl[0], opencl[1], opencl[2], opencl[3], opencl[4], "first.png"});
  const io::Image again = draw(Arguments{opencl[0], opencl[1], opencl[2], opencl[3], opencl[4], "again.png"});
  ASSERT_EQ(first.pixels.size(), want.pixels.size());
  int largest = 0;
  for (std::size_t i = 0; i < want.pixels.size(); ++i)
    largest = std::max(largest, std::abs(int{first.pixels[i]} - int{want.pixels[i]}));
  EXPECT_LE(largest, 2);
  EXPECT_EQ(again.pixels, first.pixels);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "cache/opencl-kernels"));
}

TEST_F(OpenCl, ProbeAndDoctorNameTheDevice) {
  const auto target =
      nlohmann::json::parse(succeed("difprobe", {"--backend", "opencl", "--json"})).at("target");
  const auto& device = target.at("device");
  for (const char* fact : {"name", "platform", "version", "driver"})
    EXPECT_FALSE(device.at(fact).get<std::string>().empty()) << fact;
  for (const char* fact : {"memory_bytes", "local_memory_bytes", "largest_work_group", "compute_units"})
    EXPECT_GT(device.at(fact).get<std::uint64_t>(), 0U) << fact;
  EXPECT_TRUE(device.at("f64").is_boolean());
  const std::string screen = succeed("dif", {"doctor"});
  EXPECT_NE(screen.find("backend opencl     ok       " + device.at("name").get<std::string>()),
            std::string::npos)
      << screen;
}

TEST_F(OpenCl, SaysWhatIsMissing) {
  const Running::Environment no_loader = {{"DIF_OPENCL_PATH", path("libOpenCL.so.1")}},
                             no_driver = {{"OCL_ICD_VENDORS", folder_.path().string()}};
  const Arguments generate = {"generate", "x", "--backend", "opencl"};
  fail("dif", generate, 3, "the OpenCL loader cannot be opened", no_loader);
  fail("difprobe", {"--backend", "opencl"}, 3, "the OpenCL loader cannot be opened", no_loader);
  fail("dif", generate, 3, "knows 0 OpenCL platforms and no device; install a driver", no_driver);
  const std::string screen = succeed("dif", {"doctor"}, no_driver);
  EXPECT_NE(screen.find("backend opencl     note     libOpenCL.so.1 knows 0 OpenCL platforms"),
            std::string::npos)
      << screen;
}

TEST_F(OpenCl, RefusesADeviceThatIsNotThere) {
  fail("dif", {"generate", "x", "--backend", "opencl", "--device", "99"}, 3, "there is no OpenCL device 99");
  fail("difprobe", {"--backend", "opencl", "--device", "99"}, 3, "backend opencl has no device 99");
  for (const std::string backend : {"cpu", "reference", "null"})
    fail("dif", {"generate", "x", "--backend", backend, "--device", "1"}, 3,
         "backend " + backend + ": there is no device 1; the only one is 0");
}

}  // namespace
}  // namespace dif::test
