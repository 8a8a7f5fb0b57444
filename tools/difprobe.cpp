#include <fmt/format.h>
#include <sys/utsname.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/error.h"
#include "cli/command.h"
#include "cli/machine.h"
#include "cli/options.h"
#include "cli/telemetry.h"
#include "io/digest.h"
#include "io/json.h"
#include "ir/printer.h"
#include "runtime/backend_library.h"
#include "tools.h"

namespace dif::tools {

namespace {

using nlohmann::ordered_json;

constexpr std::uint64_t kMiB = 1ULL << 20;
constexpr std::int64_t kMaxMiB = std::int64_t{1} << 40;
/// Left to the rest of the system when nothing else is asked for.
constexpr std::int64_t kDefaultReserveMiB = 512;
/// Workspace of kernels: this part of what may be used.
constexpr std::uint64_t kWorkspacePart = 8;

struct Options {
  std::string backend = "auto";
  int device = 0;
  std::optional<std::int64_t> reserve_mib, host_mib, pinned_mib, workspace_mib, staging_mib;
};

/// The entry of that device in a plug-in's document; what the document does not say is taken as one device.
Result<ordered_json> find_device(const ordered_json& document, const std::string& backend, int index) {
  if (document.is_object() && document.contains("unavailable"))
    return fail(ErrorCode::kUnavailable, "backend {}: {}", backend,
                document["unavailable"].is_string() ? document["unavailable"].get<std::string>()
                                                    : "it has no device");
  const bool listed = document.is_object() && document.contains("devices") && document["devices"].is_array();
  const std::size_t count = listed ? document["devices"].size() : 1;
  if (index < 0 || static_cast<std::size_t>(index) >= count)
    return fail(ErrorCode::kUnavailable, "backend {} has no device {}; there {} {}, numbered from 0", backend,
                index, count == 1 ? "is" : "are", count);
  return listed ? document["devices"][static_cast<std::size_t>(index)] : ordered_json();
}

/// What does not change while the machine stays as it is; the fingerprint is over exactly this.
Result<ordered_json> read_target(const Options& options) {
  std::string choice;
  DIF_ASSIGN(const auto library, cli::load_backend(options.backend, &choice));
  DIF_ASSIGN(const std::string probe, library->probe());
  const ordered_json document = ordered_json::parse(probe, nullptr, false);
  DIF_ASSIGN(const ordered_json device, find_device(document, library->name(), options.device));
  const cli::Machine machine = cli::read_machine();
  utsname system = {};
  uname(&system);
  ordered_json target;
  target["backend"] = library->name();
  target["backend_version"] = library->version();
  target["architecture"] = system.machine;
  target["processor"] = machine.processor;
  target["features"] = machine.features;
  if (document.is_object() && document.contains("libraries")) target["libraries"] = document["libraries"];
  if (device.is_object() && device.contains("driver")) target["device"] = device;
  return target;
}

/// What a plan may use now. A processor has one memory: nothing is pinned or staged unless the user says so.
ordered_json read_budget(const Options& options) {
  const cli::Machine machine = cli::read_machine();
  const std::uint64_t available = machine.memory_available_bytes;
  const std::uint64_t reserve =
      static_cast<std::uint64_t>(options.reserve_mib.value_or(kDefaultReserveMiB)) * kMiB;
  const std::uint64_t usable = available > reserve ? available - reserve : 0;
  const auto chosen = [](const std::optional<std::int64_t>& mib, std::uint64_t otherwise) {
    return mib ? static_cast<std::uint64_t>(*mib) * kMiB : otherwise;
  };
  return {{"free_bytes", available},
          {"reserve_bytes", reserve},
          {"usable_bytes", usable},
          {"host_bytes", chosen(options.host_mib, usable)},
          {"pinned_bytes", chosen(options.pinned_mib, 0)},
          {"workspace_bytes", chosen(options.workspace_mib, usable / kWorkspacePart)},
          {"staging_bytes", chosen(options.staging_mib, 0)},
          {"cpus", machine.cpus_usable}};
}

std::string screen(const ordered_json& document) {
  std::string text;
  const auto line = [&](std::string_view name, const std::string& value) {
    text += fmt::format("{:<18} {}\n", name, value);
  };
  const ordered_json& target = document["target"];
  line("fingerprint", document["fingerprint"].get<std::string>());
  for (const char* key : {"backend", "backend_version", "architecture", "processor"})
    line(key, target[key].get<std::string>());
  line("features", fmt::format("{}", fmt::join(target["features"].get<std::vector<std::string>>(), " ")));
  if (target.contains("libraries")) line("libraries", target["libraries"].dump());
  if (target.contains("device"))
    for (const auto& [key, value] : target["device"].items())
      line(key == "name" ? "device" : key, value.is_string() ? value.get<std::string>() : value.dump());
  for (const auto& [key, value] : document["budget"].items())
    line(key, key == "cpus" ? value.dump() : ir::amount_text(value.get<double>(), "B"));
  return text;
}

Status probe(const Options& options, const cli::ReportOptions& report) {
  ordered_json document = cli::telemetry_document("device-probe");
  DIF_ASSIGN(document["target"], read_target(options));
  document["fingerprint"] = io::hex(io::sha256(document["target"].dump()));
  document["budget"] = read_budget(options);
  if (report.wanted()) DIF_TRY(report.write(io::json_text(document)));
  return report.json ? ok() : cli::print_result(screen(document));
}

int run(int argc, char** argv) {
  cli::Command command("difprobe",
                       "Print the target profile of this machine and what a plan may use of it now.");
  Options o;
  command.add_option("--backend", o.backend, "what to probe: auto, cpu, opencl, or another libdif_NAME.so")
      .show_default();
  command.add_option("--device", o.device, "device index").show_default().expect_whole(0, INT32_MAX);
  const auto mebibytes = [&](const char* option, std::optional<std::int64_t>& value, const char* what) {
    command.add_option(option, value, what).expect_whole(0, kMaxMiB);
  };
  mebibytes("--reserve-mib", o.reserve_mib, "memory left to the rest of the system");
  mebibytes("--host-budget-mib", o.host_mib, "host memory that a plan may use");
  mebibytes("--pinned-budget-mib", o.pinned_mib, "pinned host memory");
  mebibytes("--workspace-budget-mib", o.workspace_mib, "scratch memory of kernels");
  mebibytes("--staging-budget-mib", o.staging_mib, "staging buffers");
  const cli::ReportOptions report(command);
  command.add_examples(
      "  difprobe --backend auto\n"
      "  difprobe --backend cpu --reserve-mib 2048 --json\n"
      "Budgets never change the fingerprint.\n");
  return cli::run_tool(command, argc, argv, [&] { return probe(o, report); });
}

}  // namespace

const cli::Tool k_difprobe = {"difprobe", "Help and diagnosis", "print the target profile and its budgets",
                              run};

}  // namespace dif::tools
