#include "cli/options.h"

#include <CLI/CLI.hpp>
#include <thread>

#include "base/error.h"
#include "cli/interrupt.h"
#include "cli/tool.h"
#include "io/atomic_file.h"
#include "runtime/backend_library.h"

namespace dif::cli {

namespace {

constexpr std::int64_t kMaxThreads = 1024;

/// Backends that `auto` tries, best first.
constexpr const char* kAutoOrder[] = {"cpu", "reference"};

}  // namespace

BackendOptions::BackendOptions(CLI::App& app) {
  app.add_option("--backend", backend, "executor: auto, cpu, reference, null, or another libdif_NAME.so")
      ->capture_default_str();
  app.add_option("--backend-plugin", plugin, "a backend library FILE.so instead of --backend");
  app.add_option("--device", device, "device index")->capture_default_str();
  app.add_option("--threads", threads, "host threads; 0 = the CPUs that this process may use")
      ->capture_default_str();
  app.add_option("--memory-cap-mib", memory_cap_mib, "device memory that may be held; 0 = no cap");
}

Result<std::shared_ptr<runtime::Context>> BackendOptions::create(runtime::ContextOptions options,
                                                                 std::string* choice) const {
  if (threads < 0 || threads > kMaxThreads)
    return invalid_input("--threads {}: expected 0 to {}", threads, kMaxThreads);
  if (device < 0) return invalid_input("--device {}: expected 0 or more", device);
  if (memory_cap_mib > (1ULL << 40)) return invalid_input("--memory-cap-mib {}: too large", memory_cap_mib);
  options.device = device;
  options.threads = static_cast<unsigned>(threads);
  options.memory_cap_bytes = memory_cap_mib << 20;
  if (!options.cancelled) options.cancelled = stop_requested;
  if (!options.log)
    options.log = [](int level, const char* sentence) {
      if (level >= DIF_LOG_WARNING) print_warning(sentence);
    };
  if (!plugin.empty()) {
    DIF_ASSIGN(auto library, runtime::BackendLibrary::load(plugin));
    *choice = fmt::format("{} (plug-in {})", library->name(), plugin);
    return runtime::Context::create(std::move(library), std::move(options));
  }
  if (backend != "auto") {
    DIF_ASSIGN(auto library, runtime::BackendLibrary::load_by_name(backend));
    *choice = fmt::format("{} (chosen)", library->name());
    return runtime::Context::create(std::move(library), std::move(options));
  }
  std::string reasons;
  for (const char* name : kAutoOrder) {
    auto library = runtime::BackendLibrary::load_by_name(name);
    if (library) {
      *choice = fmt::format("{} (auto: {})", name, reasons.empty() ? "the first that loads" : reasons);
      return runtime::Context::create(std::move(*library), std::move(options));
    }
    reasons += fmt::format("{}{}", reasons.empty() ? "" : "; ", library.error().message);
  }
  return fail(ErrorCode::kUnavailable, "no backend can be used: {}", reasons);
}

ReportOptions::ReportOptions(CLI::App& app) {
  app.add_flag("--json", json, "print the result document on stdout");
  app.add_option("--report", report, "write the result document to FILE");
}

Status ReportOptions::write(const std::string& document) const {
  if (!report.empty()) DIF_TRY(io::write_atomically(report, document));
  return json ? print_result(document) : ok();
}

ProgressOptions::ProgressOptions(CLI::App& app) {
  app.add_option("--progress", style,
                 "progress on stderr: auto (bar on a terminal, else JSON lines), bar, json, none")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "bar", "json", "none"}));
  app.add_flag("-q,--quiet", quiet, "no progress");
}

Progress ProgressOptions::create() const {
  if (quiet || style == "none") return Progress(ProgressStyle::kQuiet);
  if (style == "bar") return Progress(ProgressStyle::kBar);
  if (style == "json") return Progress(ProgressStyle::kJson);
  return Progress(ProgressStyle::kAuto);
}

}  // namespace dif::cli
