#include "cli/machine.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <sstream>
#include <thread>

#include "io/system_files.h"

namespace dif::cli {

namespace fs = std::filesystem;

namespace {

constexpr auto kFeatures = std::to_array<std::string_view>(
    {"sse4_2",   "avx",         "avx2",        "fma",         "f16c",     "avx512f",  "avx512bw",
     "avx512vl", "avx512_vnni", "avx512_bf16", "avx512_fp16", "avx_vnni", "amx_tile", "amx_bf16",
     "amx_int8", "asimd",       "asimdhp",     "bf16",        "sve",      "i8mm"});

std::vector<std::string> known_features(const std::string& flags) {
  std::istringstream words(flags);
  std::vector<std::string> all, known;
  for (std::string word; words >> word;) all.push_back(word);
  for (const std::string_view feature : kFeatures)
    if (std::ranges::find(all, feature) != all.end()) known.emplace_back(feature);
  return known;
}

double cpu_quota(const fs::path& root, double cpus) {
  for (const fs::path& group : io::control_groups(root, ""))
    if (const auto line = io::first_line(group / "cpu.max"))
      if (const auto quota = parse_cpu_max(*line)) cpus = std::min(cpus, *quota);
  for (const fs::path& group : io::control_groups(root, "cpu")) {
    const auto quota = io::number_in(group / "cpu.cfs_quota_us"),
               period = io::number_in(group / "cpu.cfs_period_us");
    if (quota && period && *quota != 0 && *period != 0)
      cpus = std::min(cpus, static_cast<double>(*quota) / static_cast<double>(*period));
  }
  return cpus;
}

}  // namespace

std::optional<double> parse_cpu_max(std::string_view text) {
  const std::size_t blank = text.find(' ');
  if (blank == std::string_view::npos) return std::nullopt;
  const auto quota = io::leading_number(text.substr(0, blank)),
             period = io::leading_number(text.substr(blank + 1));
  if (!quota || !period || *quota == 0 || *period == 0) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

Machine read_machine(const fs::path& root) {
  Machine machine;
  const fs::path cpuinfo = root / "proc/cpuinfo";
  machine.processor = io::field(cpuinfo, "model name").value_or("");
  auto flags = io::field(cpuinfo, "flags");
  if (!flags) flags = io::field(cpuinfo, "Features");
  machine.features = known_features(flags.value_or(""));

  machine.cpus_online = std::max(1U, std::thread::hardware_concurrency());
  double usable = machine.cpus_online;
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0) usable = CPU_COUNT(&allowed);
  machine.cpus_usable = static_cast<unsigned>(std::max(1.0, std::ceil(cpu_quota(root, usable))));

  const io::HostMemory memory = io::read_host_memory(root);
  machine.memory_bytes = memory.bytes;
  machine.memory_limit_bytes = memory.limit_bytes;
  machine.memory_available_bytes = memory.available_bytes;
  return machine;
}

fs::path cache_folder() {
  const auto variable = [](const char* name) -> fs::path {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
  };
  if (const fs::path chosen = variable("DIF_CACHE_DIR"); !chosen.empty()) return chosen;
  if (const fs::path cache = variable("XDG_CACHE_HOME"); cache.is_absolute())
    return cache / "diffusion-compiler";
  if (const fs::path home = variable("HOME"); !home.empty()) return home / ".cache/diffusion-compiler";
  return {};
}

}  // namespace dif::cli
