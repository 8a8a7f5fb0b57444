#include "cli/options.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/parse_number.h"
#include "cli/interrupt.h"
#include "cli/machine.h"
#include "cli/tool.h"
#include "io/atomic_file.h"
#include "io/json.h"
#include "io/printable.h"
#include "runtime/backend_library.h"

namespace dif::cli {

namespace {

constexpr std::int64_t kMaxThreads = 1024;
constexpr std::int64_t kMaxMemoryMib = std::int64_t{1} << 40;

/// Backends that `auto` tries, best first.
constexpr const char* kAutoOrder[] = {"cuda", "cpu", "reference"};

}  // namespace

constexpr std::string_view kWeightCacheOnDisk = "disk";

Result<std::uint64_t> parse_weight_cache(const std::string& text) {
  if (text == "off") return 0;
  if (text == "auto" || text == kWeightCacheOnDisk) {
    const std::uint64_t available = read_machine().memory_available_bytes;
    return available == 0 ? UINT64_MAX : available / 2;
  }
  const auto mib = parse_number<std::int64_t>(text);
  if (!mib || *mib < 1 || *mib > kMaxMemoryMib)
    return invalid_input("--weight-cache {}: expected off, auto, disk, or 1 to {} MiB",
                         io::printable(text, 40), kMaxMemoryMib);
  return static_cast<std::uint64_t>(*mib) << 20;
}

BackendOptions::BackendOptions(Command& command) {
  command
      .add_option("--backend", backend,
                  "executor: auto, cpu, opencl, reference, null, or another libdif_NAME.so")
      .show_default();
  command.add_option("--backend-plugin", plugin, "a backend library FILE.so instead of --backend");
  command.add_option("--device", device, "device index").show_default().expect_whole(0, INT32_MAX);
  command.add_option("--threads", threads, "host threads; 0 = the CPUs that this process may use")
      .show_default()
      .expect_whole(0, kMaxThreads);
  command.add_option("--memory-cap-mib", memory_cap_mib, "device memory that may be held; 0 = no cap")
      .expect_whole(0, kMaxMemoryMib);
  command
      .add_option(
          "--weight-cache", weight_cache,
          "memory for weights repacked for speed: off, auto (half of what is available), MiB, or disk "
          "(auto, kept in the cache folder and shared by all processes)")
      .show_default();
  command.add_option(
      "--cache-dir", cache_dir,
      "where derived data is kept between runs (default: DIF_CACHE_DIR, else diffusion-compiler in "
      "the user's cache folder)");
  command.add_flag("--no-cache", no_cache, "keep nothing between runs, and use nothing that was kept");
  command.add_flag("--allow-host-fallback", allow_host_fallback,
                   "operations that the device declines run on the host; reports list them");
}

std::string why_unavailable(const runtime::BackendLibrary& library) {
  const auto probe = library.probe();
  if (!probe) return probe.error().message;
  const nlohmann::json document = io::plugin_document(*probe);
  if (!document.is_object() || !document.contains("unavailable")) return "";
  const nlohmann::json& reason = document["unavailable"];
  return reason.is_string() ? reason.get<std::string>() : "it has no device";
}

Result<std::shared_ptr<const runtime::BackendLibrary>> load_backend(const std::string& backend,
                                                                    std::string* choice) {
  if (backend != "auto") {
    DIF_ASSIGN(auto library, runtime::BackendLibrary::load_by_name(backend));
    *choice = fmt::format("{} (chosen)", library->name());
    return library;
  }
  std::string reasons;
  for (const char* name : kAutoOrder) {
    auto library = runtime::BackendLibrary::load_by_name(name);
    const std::string reason = library ? why_unavailable(**library) : library.error().message;
    if (reason.empty()) {
      *choice = fmt::format("{} (auto: {})", name, reasons.empty() ? "the first that works here" : reasons);
      return library;
    }
    reasons += fmt::format("{}{}", reasons.empty() ? "" : "; ", reason);
  }
  return fail(ErrorCode::kUnavailable, "no backend can be used: {}", reasons);
}

std::string BackendOptions::cache_folder() const {
  if (no_cache) return "";
  return cache_dir.empty() ? cli::cache_folder().string() : cache_dir;
}

Result<std::shared_ptr<const runtime::BackendLibrary>> BackendOptions::load(std::string* choice) const {
  if (!plugin.empty()) {
    DIF_ASSIGN(auto library, runtime::BackendLibrary::load(plugin));
    *choice = fmt::format("{} (plug-in {})", library->name(), plugin);
    return library;
  }
  return load_backend(backend, choice);
}

Result<std::shared_ptr<runtime::Context>> BackendOptions::create(runtime::ContextOptions options,
                                                                 std::string* choice) const {
  options.device = device;
  options.threads = static_cast<unsigned>(threads);
  if (memory_cap_mib != 0) options.memory_cap_bytes = memory_cap_mib << 20;
  options.allow_host_fallback = allow_host_fallback;
  options.cache_folder = cache_folder();
  DIF_ASSIGN(options.weight_cache_bytes, parse_weight_cache(weight_cache));
  options.keep_weight_cache = weight_cache == kWeightCacheOnDisk;
  if (options.keep_weight_cache && options.cache_folder.empty())
    return invalid_input(
        "--weight-cache disk: there is no cache folder; leave out --no-cache, or name one with "
        "--cache-dir");
  if (!options.cancelled) options.cancelled = stop_requested;
  if (!options.log)
    options.log = [](int level, const char* sentence) {
      if (level >= DIF_LOG_WARNING) print_warning(sentence);
    };
  DIF_ASSIGN(auto library, load(choice));
  return runtime::Context::create(std::move(library), std::move(options));
}

ReportOptions::ReportOptions(Command& command) {
  command.add_flag("--json", json, "print the result document on stdout");
  command.add_option("--report", report, "write the result document to FILE").expect_name();
}

Status ReportOptions::write(const std::string& document) const {
  if (!report.empty()) DIF_TRY(io::write_atomically(report, document));
  return json ? print_result(document) : ok();
}

ProgressOptions::ProgressOptions(Command& command) {
  command
      .add_option("--progress", style,
                  "progress on stderr: auto (bar on a terminal, else JSON lines), bar, json, none")
      .show_default()
      .expect_one_of({"auto", "bar", "json", "none"});
  command.add_flag("-q,--quiet", quiet, "no progress");
}

Progress ProgressOptions::create() const {
  if (quiet || style == "none") return Progress(ProgressStyle::kQuiet);
  if (style == "bar") return Progress(ProgressStyle::kBar);
  if (style == "json") return Progress(ProgressStyle::kJson);
  return Progress(ProgressStyle::kAuto);
}

}  // namespace dif::cli
