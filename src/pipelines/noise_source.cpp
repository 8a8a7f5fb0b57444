#include "pipelines/noise_source.h"

#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "io/json.h"
#include "io/printable.h"
#include "pipelines/noise.h"
#include "pipelines/noise_philox.h"

namespace dif {

namespace {

constexpr std::string_view kCpu = "torch-cpu", kCuda = "torch-cuda";
constexpr int kMaxMultiprocessors = 4096, kLeastThreads = 256, kMostThreads = 4096;

bool is_card(const NoiseSource& card) {
  return card.multiprocessors >= 1 && card.multiprocessors <= kMaxMultiprocessors &&
         card.threads_per_multiprocessor >= kLeastThreads && card.threads_per_multiprocessor <= kMostThreads;
}

/// "132x2048"
std::optional<NoiseSource> read_card(std::string_view text) {
  const char* const end = text.data() + text.size();
  NoiseSource card;
  const auto first = std::from_chars(text.data(), end, card.multiprocessors);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != 'x') return std::nullopt;
  const auto second = std::from_chars(first.ptr + 1, end, card.threads_per_multiprocessor);
  if (second.ec != std::errc() || second.ptr != end || !is_card(card)) return std::nullopt;
  return card;
}

/// The card of a backend's probe document. A plug-in's document is not ours: anything may lack.
std::optional<NoiseSource> probed_card(std::string_view probe, int device) {
  const nlohmann::json document = io::plugin_document(probe);
  const nlohmann::json::json_pointer place(fmt::format("/devices/{}", device));
  if (!document.is_object() || !document.contains(place) || !document[place].is_object()) return std::nullopt;
  const auto number = [&](const char* key) {
    const nlohmann::json& found = document[place].value(key, nlohmann::json());
    return found.is_number_integer() ? found.get<int>() : 0;
  };
  const NoiseSource card = {number("multiprocessors"), number("threads_of_multiprocessor")};
  return is_card(card) ? std::optional(card) : std::nullopt;
}

}  // namespace

std::string NoiseSource::text() const {
  if (!is_cuda()) return std::string(kCpu);
  return fmt::format("{}:{}x{}", kCuda, multiprocessors, threads_per_multiprocessor);
}

Result<NoiseSource> parse_noise_source(std::string_view text, std::string_view probe, int device) {
  if (text == kCpu) return NoiseSource{};
  if (text == kCuda) {
    const auto card = probed_card(probe, device);
    if (card) return *card;
    return invalid_input(
        "torch-cuda: the noise depends on the card, and this backend runs on none; name it by its "
        "multiprocessors and "
        "the threads of each, such as torch-cuda:132x2048 for an H100 or H200");
  }
  const std::string prefix = fmt::format("{}:", kCuda);
  if (text.starts_with(prefix))
    if (const auto card = read_card(text.substr(prefix.size()))) return *card;
  return invalid_input(
      "{} names no source of noise: expected torch-cpu, torch-cuda, or torch-cuda:MULTIPROCESSORSxTHREADS "
      "such as "
      "torch-cuda:132x2048",
      io::printable(text, 40));
}

Result<io::HostTensor> draw_noise(const NoiseSource& source, std::uint64_t seed, DType dtype,
                                  const Shape& shape) {
  io::HostTensor noise(dtype, shape);
  if (!source.is_cuda()) {
    DIF_TRY(TorchCpuGenerator(seed).normal(dtype, noise.data));
    return noise;
  }
  if (dtype != DType::kF32)
    return invalid_input("noise of {} is drawn in f32, not in {}", source.text(), dtype_name(dtype));
  TorchCudaGenerator(seed, source.multiprocessors, source.threads_per_multiprocessor)
      .normal_f32(noise.as<float>());
  return noise;
}

}  // namespace dif
