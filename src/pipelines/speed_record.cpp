#include "pipelines/speed_record.h"

#include <sys/utsname.h>

#include <array>
#include <cmath>
#include <cstring>
#include <span>

namespace dif {

namespace {

constexpr std::uint32_t kVersion = 1;
/// Orders of magnitude in which a speed is looked for, each way.
constexpr int kFarthest = 3;
/// A kept speed this near is not written again.
constexpr double kMuchTheSame = 0.1;

/// A cache folder may be one for several machines.
std::string machine_name() {
  utsname name{};
  return ::uname(&name) == 0 ? name.nodename : "";
}

int magnitude(double flops) {
  return static_cast<int>(std::floor(std::log10(flops)));
}

io::CacheKey key_of(const SpeedConditions& conditions, int order) {
  return io::CacheKey("speeds", kVersion)
      .add("machine", machine_name())
      .add("backend", conditions.backend)
      .add("device", static_cast<std::uint64_t>(conditions.device))
      .add("threads", conditions.threads)
      .add("program", conditions.program)
      .add("dtype", conditions.dtype)
      .add("magnitude", static_cast<std::uint64_t>(order));
}

bool is_amount(double x) {
  return std::isfinite(x) && x > 0;
}

std::optional<Speed> kept(io::CacheStore& store, const SpeedConditions& conditions, int order) {
  if (order < 0) return std::nullopt;
  const auto found = store.find(key_of(conditions, order));
  std::array<double, 2> numbers;
  if (!found || found->bytes.size() != sizeof(numbers)) return std::nullopt;
  std::memcpy(numbers.data(), found->bytes.data(), sizeof(numbers));
  if (!is_amount(numbers[0]) || !is_amount(numbers[1])) return std::nullopt;
  return Speed{numbers[0], numbers[1]};
}

}  // namespace

void note_speed(io::CacheStore& store, const SpeedConditions& conditions, double flops, std::int64_t runs,
                double seconds) {
  const double speed = flops * static_cast<double>(runs) / seconds;
  if (!is_amount(flops) || flops < 1 || !is_amount(speed)) return;
  const int order = magnitude(flops);
  const auto before = kept(store, conditions, order);
  if (before && std::fabs(before->flops_per_second / speed - 1) < kMuchTheSame) return;
  const std::array numbers = {flops, speed};
  store.store(key_of(conditions, order), std::as_bytes(std::span(numbers)));
}

std::optional<Speed> find_speed(io::CacheStore& store, const SpeedConditions& conditions, double flops) {
  if (!is_amount(flops) || flops < 1) return std::nullopt;
  const int order = magnitude(flops);
  for (int away = 0; away <= kFarthest; ++away)
    for (const int sign : {-1, 1})
      if (const auto found = kept(store, conditions, order + sign * away)) return found;
  return std::nullopt;
}

}  // namespace dif
