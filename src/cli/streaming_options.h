#pragma once

#include <cstdint>
#include <string>

#include "cli/command.h"
#include "dif/status.h"
#include "runtime/session.h"

namespace dif::cli {

/// Bytes of a size with its unit, such as 12GiB or 900MiB; fractions are allowed. Errors: InvalidInput,
/// naming the option.
Result<std::uint64_t> parse_size_with_unit(const std::string& option, const std::string& text);

/// How much of a device a run may take, and how weights that do not fit get there: --max-vram,
/// --min-free-mib,
/// --resident-plan-mib, --resident-order, --prefetch-distance (--streamed-prefetch-depth), --host-pinned,
/// --serial-streaming, --streamed-staging-buffers, --streamed-stage-threads, --streamed-pinned-budget-mib,
/// --streamed-keep-pages, --streamed-release-pages, --lazy-resident-upload, --pipelined-resident-upload,
/// --pinned-io.
/// Stands behind BackendOptions.
struct StreamingOptions {
  explicit StreamingOptions(Command& command);

  std::string max_vram;
  std::string resident_order = "spread";
  std::uint64_t resident_plan_mib = 0, min_free_mib = 0;
  std::uint32_t prefetch_distance = 3, staging_buffers = 32, stage_threads = 0;
  std::uint64_t pinned_budget_mib = 2048;
  bool host_pinned = false, serial = false, keep_pages = false, release_pages = false, lazy = false,
       pipelined = false, pinned_io = false;

  bool is_capped() const { return !max_vram.empty() || resident_plan_mib != 0; }
  /// Fills in what the context takes of it. Errors: InvalidInput (a size, options that contradict each
  /// other).
  Status apply(runtime::ContextOptions& options) const;
  /// Tells the user which options have no meaning on a backend that reads weights where they are, or copies
  /// them once.
  void warn_unused(const std::string& backend) const;
  /// Whether inputs and outputs of that many bytes may be pinned, where they are to be. Errors: InvalidInput.
  Status check_pinned_io(std::uint64_t bytes) const;

 private:
  std::uint64_t staging_bytes() const;

  Command command_;
};

}  // namespace dif::cli
