#include "cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/clock.h"
#include "cli/tool.h"

namespace dif::cli {

namespace {

constexpr int kBarWidth = 28;
constexpr auto kRedrawInterval = std::chrono::milliseconds(100);

std::string duration(double seconds) {
  if (seconds < 9.95) return fmt::format("{:.1f} s", seconds);
  if (seconds < 60) return fmt::format("{:.0f} s", seconds);
  const auto whole = static_cast<std::int64_t>(seconds);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

}  // namespace

Progress::Progress(ProgressStyle style) : style_(style) {
  if (style_ == ProgressStyle::kAuto)
    style_ = isatty(STDERR_FILENO) ? ProgressStyle::kBar : ProgressStyle::kJson;
}

double Progress::elapsed_seconds() const {
  return seconds_since(start_);
}

void Progress::begin(std::string_view stage, std::uint64_t total, std::string_view unit) {
  finish();
  stage_ = stage;
  unit_ = unit;
  total_ = total;
  done_ = 0;
  open_ = true;
  start_ = std::chrono::steady_clock::now();
  last_drawn_ = {};
  draw(false);
}

void Progress::advance(std::uint64_t done) {
  done_ = done;
  if (open_ && std::chrono::steady_clock::now() - last_drawn_ >= kRedrawInterval) draw(false);
}

void Progress::finish() {
  if (!open_) return;
  open_ = false;
  if (total_ != 0) done_ = std::max(done_, total_);
  draw(true);
}

void Progress::draw(bool done) {
  last_drawn_ = std::chrono::steady_clock::now();
  const double seconds = elapsed_seconds();
  const double rate = seconds > 0 ? static_cast<double>(done_) / seconds : 0;
  const bool measurable = total_ != 0 && done_ != 0;
  const double left =
      measurable ? seconds / static_cast<double>(done_) * static_cast<double>(total_ - done_) : 0;
  if (style_ == ProgressStyle::kJson) {
    std::string line = fmt::format(R"({{"progress":"{}","done":{},"total":{},"seconds":{:.3f})", stage_,
                                   done_, total_, seconds);
    if (measurable) line += fmt::format(R"(,"per_second":{:.3f},"eta_seconds":{:.3f})", rate, left);
    say(fmt::format("{},\"finished\":{}}}\n", line, done));
  } else if (style_ == ProgressStyle::kBar) {
    std::string line = fmt::format("\r\x1b[K{:<9}", stage_);
    if (total_ != 0) {
      const auto filled = static_cast<int>(kBarWidth * done_ / total_);
      line += fmt::format(" [{:#<{}}{: <{}}] {}/{} {}s", "", filled, "", kBarWidth - filled, done_, total_,
                          unit_);
    }
    line += fmt::format("  {}", duration(seconds));
    if (measurable) line += fmt::format(", {:.2f} {}s/s", rate, unit_);
    if (measurable && !done) line += fmt::format(", {} left", duration(left));
    say(fmt::format("{}{}", line, done ? "\n" : ""));
    std::fflush(stderr);
  }
}

}  // namespace dif::cli
