#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace dif::cli {

enum class ProgressStyle {
  kAuto,  ///< a bar on a terminal, JSON lines otherwise
  kBar,
  kJson,
  kQuiet,
};

/// Progress of named stages on stderr with rate and time left. A stage has a known number of units, or none.
class Progress {
 public:
  explicit Progress(ProgressStyle style);

  /// Starts a stage of `total` units (0 = unknown); an open stage is finished first. `unit` is singular:
  /// "step".
  void begin(std::string_view stage, std::uint64_t total, std::string_view unit);
  void advance(std::uint64_t done);
  void finish();

 private:
  double elapsed_seconds() const;
  void draw(bool done);

  ProgressStyle style_;
  std::string stage_;
  std::string unit_;
  std::uint64_t total_ = 0;
  std::uint64_t done_ = 0;
  bool open_ = false;
  std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point last_drawn_;
};

}  // namespace dif::cli
