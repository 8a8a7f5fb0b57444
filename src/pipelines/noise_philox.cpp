#include "pipelines/noise_philox.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"

namespace dif {

namespace {

constexpr std::uint64_t kThreadsPerBlock = 256;
constexpr std::uint64_t kNormalsPerPass = 4;

/// Two normals from two 32-bit integers; the sine comes first.
std::array<float, 2> box_muller(std::uint32_t x, std::uint32_t y) {
  constexpr float kToUnit = 0x1p-32F;
  constexpr auto kToAngle = static_cast<float>(0x1p-32 * 2.0 * std::numbers::pi);
  const float u = std::fma(static_cast<float>(x), kToUnit, kToUnit / 2.0F);
  const float angle = std::fma(static_cast<float>(y), kToAngle, kToAngle / 2.0F);
  const float radius = std::sqrt(-2.0F * std::log(u));
  return {radius * std::sin(angle), radius * std::cos(angle)};
}

}  // namespace

std::array<std::uint32_t, 4> philox4x32_10(std::array<std::uint32_t, 4> counter,
                                           std::array<std::uint32_t, 2> key) {
  constexpr std::uint64_t kMultiplier0 = 0xD2511F53U;
  constexpr std::uint64_t kMultiplier1 = 0xCD9E8D57U;
  constexpr std::uint32_t kWeyl0 = 0x9E3779B9U;
  constexpr std::uint32_t kWeyl1 = 0xBB67AE85U;
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = kMultiplier0 * counter[0];
    const std::uint64_t product1 = kMultiplier1 * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<std::uint32_t>(product0)};
    key = {key[0] + kWeyl0, key[1] + kWeyl1};
  }
  return counter;
}

TorchCudaGenerator::TorchCudaGenerator(std::uint64_t seed, int multiprocessors,
                                       int threads_per_multiprocessor)
    : seed_(seed) {
  DIF_CHECK(multiprocessors > 0 && threads_per_multiprocessor >= static_cast<int>(kThreadsPerBlock));
  blocks_at_once_ = static_cast<std::uint64_t>(multiprocessors) *
                    (static_cast<std::uint64_t>(threads_per_multiprocessor) / kThreadsPerBlock);
}

void TorchCudaGenerator::normal_f32(std::span<float> out) {
  if (out.empty()) return;
  const std::uint64_t blocks =
      std::min(blocks_at_once_, (out.size() + kThreadsPerBlock - 1) / kThreadsPerBlock);
  const std::uint64_t threads = blocks * kThreadsPerBlock;
  const std::uint64_t passes = (out.size() - 1) / (threads * kNormalsPerPass) + 1;
  const std::array key = {static_cast<std::uint32_t>(seed_), static_cast<std::uint32_t>(seed_ >> 32)};
  for (std::uint64_t pass = 0; pass < passes; ++pass) {
    const std::uint64_t offset = passes_ + pass;
    for (std::uint64_t thread = 0; thread < threads; ++thread) {
      const std::uint64_t first = pass * threads * kNormalsPerPass + thread;
      if (first >= out.size()) break;
      const auto draw =
          philox4x32_10({static_cast<std::uint32_t>(offset), static_cast<std::uint32_t>(offset >> 32),
                         static_cast<std::uint32_t>(thread), static_cast<std::uint32_t>(thread >> 32)},
                        key);
      const auto [a, b] = box_muller(draw[0], draw[1]);
      const auto [c, d] = box_muller(draw[2], draw[3]);
      std::uint64_t index = first;
      for (const float value : {a, b, c, d}) {
        if (index < out.size()) out[index] = value;
        index += threads;
      }
    }
  }
  passes_ += passes;
}

}  // namespace dif
