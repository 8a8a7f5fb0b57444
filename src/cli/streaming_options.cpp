#include "cli/streaming_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string_view>

#include "base/error.h"
#include "cli/options.h"
#include "cli/tool.h"
#include "io/printable.h"

namespace dif::cli {

namespace {
constexpr std::uint64_t kMiB = 1 << 20;
/// The backends of ours that read weights where they are, or copy them once. Of others nothing is known.
constexpr std::array<std::string_view, 4> kDoNotStream = {"cpu", "reference", "opencl", "null"};
}  // namespace

Result<std::uint64_t> parse_size_with_unit(const std::string& option, const std::string& text) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [unit, error] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  const std::string_view rest(unit, static_cast<std::size_t>(end - unit));
  const double scale = rest == "GiB" ? std::pow(2.0, 30) : rest == "MiB" ? std::pow(2.0, 20) : 0;
  if (error != std::errc() || scale == 0 || !(number * scale >= 1) || number * scale > std::pow(2.0, 60))
    return invalid_input("{} {}: expected a size such as 12GiB or 900MiB", option,
                         text.empty() ? "\"\"" : io::printable(text, 40));
  return static_cast<std::uint64_t>(number * scale);
}

StreamingOptions::StreamingOptions(CLI::App& app) {
  CLI::Option* const cap = app.add_option(
      "--max-vram", max_vram,
      "device memory that may be held, driver and libraries included, such as 12GiB; weights beyond it are "
      "streamed in every step");
  if (CLI::Option* const other = app.get_option_no_throw("--memory-cap-mib")) cap->excludes(other);
  expect_whole(app.add_option("--min-free-mib", min_free_mib,
                              "stop before less device memory than this is free, whoever takes it"),
               0, kMostMib);
  expect_whole(app.add_option("--resident-plan-mib", resident_plan_mib,
                              "device memory that weights are planned for, when less than the cap"),
               1, kMostMib);
  app.add_option("--resident-order", resident_order,
                 "which weights stay on the device: first (as they are read), largest, spread (so that "
                 "streaming is even)")
      ->capture_default_str()
      ->check(CLI::IsMember({"first", "largest", "spread"}));
  expect_whole(app.add_option("--prefetch-distance,--streamed-prefetch-depth", prefetch_distance,
                              "steps whose streamed weights are fetched ahead")
                   ->capture_default_str(),
               0, kMostPrefetchDistance);
  app.add_flag("--host-pinned", host_pinned,
               "streamed weights wait in pinned host memory, not in their files");
  app.add_flag("--serial-streaming", serial, "fetch nothing before it is needed");
  expect_whole(app.add_option("--streamed-staging-buffers", staging_buffers,
                              "pinned buffers of 4 MiB through which files go to the device")
                   ->capture_default_str(),
               2, runtime::kMostStagingBuffers);
  expect_whole(app.add_option("--streamed-stage-threads", stage_threads,
                              "threads that read weights; 0 = the CPUs, at most 12")
                   ->capture_default_str(),
               0, runtime::kMostReadingThreads);
  expect_whole(app.add_option("--streamed-pinned-budget-mib", pinned_budget_mib,
                              "what the pinned buffers may take together")
                   ->capture_default_str(),
               0, kMostMib);
  CLI::Option* const keep =
      app.add_flag("--streamed-keep-pages", keep_pages, "what was read stays in the page cache (as it is)");
  app.add_flag("--streamed-release-pages", release_pages, "what was read leaves the page cache")
      ->excludes(keep);
  CLI::Option* const late =
      app.add_flag("--lazy-resident-upload", lazy, "fetch resident weights with the first run");
  app.add_flag("--pipelined-resident-upload", pipelined,
               "read resident weights beside their copies when a program is prepared (as it is)")
      ->excludes(late);
  app.add_flag("--pinned-io", pinned_io,
               "inputs and outputs go through pinned memory, which counts against "
               "--streamed-pinned-budget-mib");
  for (const char* name :
       {"--min-free-mib", "--resident-plan-mib", "--resident-order", "--prefetch-distance", "--host-pinned",
        "--serial-streaming", "--streamed-staging-buffers", "--streamed-stage-threads",
        "--streamed-pinned-budget-mib", "--streamed-keep-pages", "--streamed-release-pages",
        "--lazy-resident-upload", "--pipelined-resident-upload", "--pinned-io"})
    of_streaming_.push_back(app.get_option(name));
}

std::uint64_t StreamingOptions::staging_bytes() const {
  return std::uint64_t{staging_buffers} * runtime::WeightOptions::kStagingBufferBytes;
}

void StreamingOptions::warn_unused(const std::string& backend) const {
  if (std::ranges::find(kDoNotStream, backend) == kDoNotStream.end()) return;
  for (const CLI::Option* option : of_streaming_)
    if (option->count() != 0)
      print_warning(
          fmt::format("backend {} does not stream weights: {} has no effect", backend, option->get_name()));
}

Status StreamingOptions::check_pinned_io(std::uint64_t bytes) const {
  const std::uint64_t budget = pinned_budget_mib * kMiB, staging = staging_bytes();
  if (!pinned_io || (staging <= budget && bytes <= budget - staging)) return ok();
  return invalid_input(
      "--pinned-io: {} bytes of inputs and outputs beside {} MiB of staging buffers are more than "
      "--streamed-pinned-budget-mib {}",
      bytes, staging / kMiB, pinned_budget_mib);
}

Status StreamingOptions::apply(runtime::ContextOptions& options) const {
  if (!max_vram.empty()) {
    DIF_ASSIGN(options.memory_cap_bytes, parse_size_with_unit("--max-vram", max_vram));
  }
  const std::uint64_t ring = staging_bytes();
  if (ring > pinned_budget_mib * kMiB)
    return invalid_input(
        "--streamed-staging-buffers {}: {} MiB are more than --streamed-pinned-budget-mib {}",
        staging_buffers, ring / kMiB, pinned_budget_mib);
  options.pinned_io = pinned_io;
  runtime::WeightOptions& weights = options.weights;
  weights.budget_bytes = resident_plan_mib * kMiB;
  weights.least_free_bytes = min_free_mib * kMiB;
  weights.order = *plan::order_from_name(resident_order);
  weights.prefetch_distance = prefetch_distance;
  weights.host_pinned = host_pinned;
  weights.serial = serial;
  weights.lazy = lazy;
  weights.release_pages = release_pages;
  weights.threads = stage_threads;
  weights.n_buffers = staging_buffers;
  return ok();
}

}  // namespace dif::cli
