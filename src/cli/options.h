#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "cli/command.h"
#include "cli/progress.h"
#include "dif/status.h"
#include "runtime/session.h"

/// Groups of options that mean the same in every tool that has them.
namespace dif::cli {

/// More is a mistake in whatever option is said in MiB, or in steps that are fetched ahead.
inline constexpr std::int64_t kMostMib = std::int64_t{1} << 40;
inline constexpr std::int64_t kMostPrefetchDistance = 1 << 20;

/// Bytes of --weight-cache: off is 0, auto and disk half of the memory that is available now, else MiB.
/// Errors: InvalidInput.
Result<std::uint64_t> parse_weight_cache(const std::string& text);

/// Why a backend cannot be used on this machine, in its own words; empty when it can, as far as it knows.
std::string why_unavailable(const runtime::BackendLibrary& library);

/// The backend of that name; auto takes the first of cuda, cpu, reference that works here, and says which and
/// why in `choice`.
Result<std::shared_ptr<const runtime::BackendLibrary>> load_backend(const std::string& backend,
                                                                    std::string* choice);

/// --backend, --backend-plugin, --device, --threads, --memory-cap-mib, --weight-cache, --cache-dir,
/// --no-cache, --allow-host-fallback
struct BackendOptions {
  explicit BackendOptions(Command& command);

  std::string backend = "auto";
  std::string plugin;
  int device = 0;
  std::int64_t threads = 0;
  std::uint64_t memory_cap_mib = 0;
  std::string weight_cache = "auto";
  std::string cache_dir;
  bool no_cache = false;
  bool allow_host_fallback = false;

  /// Where derived data is kept between runs; empty with --no-cache, or where no variable says where.
  std::string cache_folder() const;

  /// Loads the plug-in, or the backend as load_backend does.
  Result<std::shared_ptr<const runtime::BackendLibrary>> load(std::string* choice) const;
  /// Loads it and creates its context.
  Result<std::shared_ptr<runtime::Context>> create(runtime::ContextOptions options,
                                                   std::string* choice) const;
};

/// --json, --report FILE: where the telemetry document goes.
struct ReportOptions {
  explicit ReportOptions(Command& command);

  bool json = false;
  std::string report;

  bool wanted() const { return json || !report.empty(); }
  /// Writes the document where it was asked for.
  Status write(const std::string& document) const;
};

/// --progress {auto,bar,json,none}, --quiet
struct ProgressOptions {
  explicit ProgressOptions(Command& command);

  std::string style = "auto";
  bool quiet = false;

  Progress create() const;
};

}  // namespace dif::cli
