#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "cli/progress.h"
#include "dif/status.h"
#include "runtime/session.h"

namespace CLI {
class App;
}

/// Groups of options that mean the same in every tool that has them.
namespace dif::cli {

/// --backend, --backend-plugin, --device, --threads, --memory-cap-mib
struct BackendOptions {
  explicit BackendOptions(CLI::App& app);

  std::string backend = "auto";
  std::string plugin;
  int device = 0;
  std::int64_t threads = 0;
  std::uint64_t memory_cap_mib = 0;

  /// Loads the plug-in and creates its context; auto takes the first of cpu, reference that loads, and says
  /// which and why in `choice`.
  Result<std::shared_ptr<runtime::Context>> create(runtime::ContextOptions options,
                                                   std::string* choice) const;
};

/// --json, --report FILE: where the telemetry document goes.
struct ReportOptions {
  explicit ReportOptions(CLI::App& app);

  bool json = false;
  std::string report;

  bool wanted() const { return json || !report.empty(); }
  /// Writes the document where it was asked for.
  Status write(const std::string& document) const;
};

/// --progress {auto,bar,json,none}, --quiet
struct ProgressOptions {
  explicit ProgressOptions(CLI::App& app);

  std::string style = "auto";
  bool quiet = false;

  Progress create() const;
};

}  // namespace dif::cli
