#include "cli/streaming_options.h"

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
/// What means nothing where nothing is streamed.
constexpr const char* kOfStreaming[] = {"--min-free-mib",
                                        "--resident-plan-mib",
                                        "--resident-order",
                                        "--prefetch-distance",
                                        "--host-pinned",
                                        "--serial-streaming",
                                        "--streamed-staging-buffers",
                                        "--streamed-stage-threads",
                                        "--streamed-pinned-budget-mib",
                                        "--streamed-keep-pages",
                                        "--streamed-release-pages",
                                        "--lazy-resident-upload",
                                        "--pipelined-resident-upload",
                                        "--pinned-io"};
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

StreamingOptions::StreamingOptions(Command& command) : command_(command) {
  command
      .add_option("--max-vram", max_vram,
                  "device memory that may be held, driver and libraries included, such as 12GiB; weights "
                  "beyond it are streamed in every step")
      .excludes(command.option("--memory-cap-mib"));
  command
      .add_option("--min-free-mib", min_free_mib,
                  "stop before less device memory than this is free, whoever takes it")
      .expect_whole(0, kMostMib);
  command
      .add_option("--resident-plan-mib", resident_plan_mib,
                  "device memory that weights are planned for, when less than the cap")
      .expect_whole(1, kMostMib);
  command
      .add_option("--resident-order", resident_order,
                  "which weights stay on the device: first (as they are read), largest, spread (so that "
                  "streaming is even)")
      .show_default()
      .expect_one_of({"first", "largest", "spread"});
  command
      .add_option("--prefetch-distance,--streamed-prefetch-depth", prefetch_distance,
                  "steps whose streamed weights are fetched ahead")
      .show_default()
      .expect_whole(0, kMostPrefetchDistance);
  command.add_flag("--host-pinned", host_pinned,
                   "streamed weights wait in pinned host memory, not in their files");
  command.add_flag("--serial-streaming", serial, "fetch nothing before it is needed");
  command
      .add_option("--streamed-staging-buffers", staging_buffers,
                  "pinned buffers of 4 MiB through which files go to the device")
      .show_default()
      .expect_whole(2, runtime::kMostStagingBuffers);
  command
      .add_option("--streamed-stage-threads", stage_threads,
                  "threads that read weights; 0 = the CPUs, at most 12")
      .show_default()
      .expect_whole(0, runtime::kMostReadingThreads);
  command
      .add_option("--streamed-pinned-budget-mib", pinned_budget_mib,
                  "what the pinned buffers may take together")
      .show_default()
      .expect_whole(0, kMostMib);
  const Option keep = command.add_flag("--streamed-keep-pages", keep_pages,
                                       "what was read stays in the page cache (as it is)");
  command.add_flag("--streamed-release-pages", release_pages, "what was read leaves the page cache")
      .excludes(keep);
  const Option late =
      command.add_flag("--lazy-resident-upload", lazy, "fetch resident weights with the first run");
  command
      .add_flag("--pipelined-resident-upload", pipelined,
                "read resident weights beside their copies when a program is prepared (as it is)")
      .excludes(late);
  command.add_flag("--pinned-io", pinned_io,
                   "inputs and outputs go through pinned memory, which counts against "
                   "--streamed-pinned-budget-mib");
}

std::uint64_t StreamingOptions::staging_bytes() const {
  return std::uint64_t{staging_buffers} * runtime::WeightOptions::kStagingBufferBytes;
}

void StreamingOptions::warn_unused(const std::string& backend) const {
  if (std::ranges::find(kDoNotStream, backend) == kDoNotStream.end()) return;
  for (const char* option : kOfStreaming)
    if (command_.given(option))
      print_warning(fmt::format("backend {} does not stream weights: {} has no effect", backend, option));
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
