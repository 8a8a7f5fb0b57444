#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "io/cache_store.h"

namespace dif {

/// Under which a speed was achieved, beside the amount of work.
struct SpeedConditions {
  std::string backend;
  int device = 0;
  unsigned threads = 0;  ///< as asked for; 0: all
  std::string program;   ///< its name, e.g. "denoiser"
  std::string dtype;
};

/// Work that was done in some time.
struct Speed {
  double flops_a_run = 0;
  double flops_per_second = 0;
};

/// Keeps what a stage achieved on this machine for later estimates, unless much the same is kept already.
/// `flops` of one run, `seconds` of all `runs`; nothing is kept of a stage without work or time.
void note_speed(io::CacheStore& store, const SpeedConditions& conditions, double flops, std::int64_t runs,
                double seconds);

/// What was kept of runs with about as many FLOP, else with up to a thousand times less or more: the nearest.
std::optional<Speed> find_speed(io::CacheStore& store, const SpeedConditions& conditions, double flops);

}  // namespace dif
