// Writing a 1024 x 1024 picture as PNG: one that looks like a photograph, and noise, the worst that there is.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <random>
#include <string>

#include "io/png.h"

namespace dif::bench {
namespace {

constexpr std::uint32_t kSide = 1024;

io::Image noise() {
  io::Image image(kSide, kSide, 3);
  std::mt19937 random(1);
  for (std::uint8_t& value : image.pixels) value = static_cast<std::uint8_t>(random());
  return image;
}

/// Soft shapes with edges, and grain of 1.5 levels.
io::Image photograph() {
  io::Image image(kSide, kSide, 3);
  std::mt19937 random(1);
  std::normal_distribution<float> grain(0, 1.5f);
  std::size_t at = 0;
  for (std::uint32_t y = 0; y < kSide; ++y) {
    for (std::uint32_t x = 0; x < kSide; ++x) {
      const float edge = (x / 97 + y / 131) % 4 == 0 ? 30.0f : 0.0f;
      for (std::uint32_t c = 0; c < 3; ++c) {
        const auto fx = static_cast<float>(x), fy = static_cast<float>(y), fc = static_cast<float>(c);
        const float soft = 60 * std::sin(fx * .011f + fc) + 50 * std::cos(fy * .017f * (1 + .3f * fc));
        image.pixels[at++] =
            static_cast<std::uint8_t>(std::clamp(128 + soft + edge + grain(random), 0.f, 255.f));
      }
    }
  }
  return image;
}

void write_file(benchmark::State& state, const io::Image& image) {
  const std::filesystem::path file = std::filesystem::temp_directory_path() /
                                     ("png_bench-" + std::to_string(std::random_device{}()) + ".png");
  for (auto _ : state) {
    if (!io::write_png(file, image)) state.SkipWithError("the picture cannot be written");
  }
  std::error_code error;
  state.counters["bytes"] = static_cast<double>(std::filesystem::file_size(file, error));
  std::filesystem::remove(file, error);
}

void encode(benchmark::State& state, const io::Image& image) {
  for (auto _ : state) benchmark::DoNotOptimize(io::encode_png(image));
}

}  // namespace
}  // namespace dif::bench

int main(int argc, char** argv) {
  using namespace dif::bench;
  for (const auto& [name, image] : {std::pair("photograph", photograph()), std::pair("noise", noise())}) {
    benchmark::RegisterBenchmark((std::string("encode/") + name).c_str(), encode, image)
        ->UseRealTime()
        ->Unit(benchmark::kMillisecond);
    benchmark::RegisterBenchmark((std::string("write/") + name).c_str(), write_file, image)
        ->UseRealTime()
        ->Unit(benchmark::kMillisecond);
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
