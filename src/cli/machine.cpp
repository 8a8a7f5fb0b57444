#include "cli/machine.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

namespace dif::cli {

namespace fs = std::filesystem;

namespace {

constexpr auto kFeatures = std::to_array<std::string_view>(
    {"sse4_2",   "avx",         "avx2",        "fma",         "f16c",     "avx512f",  "avx512bw",
     "avx512vl", "avx512_vnni", "avx512_bf16", "avx512_fp16", "avx_vnni", "amx_tile", "amx_bf16",
     "amx_int8", "asimd",       "asimdhp",     "bf16",        "sve",      "i8mm"});

std::optional<std::string> first_line(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  if (!std::getline(in, line)) return std::nullopt;
  return line;
}

std::optional<std::uint64_t> parse_number(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return number;
}

std::optional<std::uint64_t> number_in(const fs::path& file) {
  const auto line = first_line(file);
  return line ? parse_number(*line) : std::nullopt;
}

/// "key : value" lines; the first of each key counts.
std::optional<std::string> field(std::istream& lines, std::string_view key) {
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(key)) continue;
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos || line.find_first_not_of(" \t", key.size()) != colon) continue;
    const std::size_t start = line.find_first_not_of(" \t", colon + 1);
    return start == std::string::npos ? "" : line.substr(start);
  }
  return std::nullopt;
}

std::optional<std::string> field(const fs::path& file, std::string_view key) {
  std::ifstream in(file);
  return field(in, key);
}

std::vector<std::string> known_features(const std::string& flags) {
  std::istringstream words(flags);
  std::vector<std::string> all, known;
  for (std::string word; words >> word;) all.push_back(word);
  for (const std::string_view feature : kFeatures)
    if (std::ranges::find(all, feature) != all.end()) known.emplace_back(feature);
  return known;
}

/// Our control group and those around it, innermost first, for a controller ("" = version 2).
std::vector<fs::path> groups(const fs::path& root, std::string_view controller) {
  const fs::path top = root / "sys/fs/cgroup" / controller;
  std::ifstream in(root / "proc/self/cgroup");
  std::vector<fs::path> folders;
  for (std::string line; std::getline(in, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos || line.substr(first + 1, second - first - 1) != controller) continue;
    for (fs::path path = line.substr(second + 1); path.has_relative_path(); path = path.parent_path())
      folders.push_back(top / path.relative_path());
  }
  folders.push_back(top);
  return folders;
}

double cpu_quota(const fs::path& root, double cpus) {
  for (const fs::path& group : groups(root, ""))
    if (const auto line = first_line(group / "cpu.max"))
      if (const auto quota = parse_cpu_max(*line)) cpus = std::min(cpus, *quota);
  for (const fs::path& group : groups(root, "cpu")) {
    const auto quota = number_in(group / "cpu.cfs_quota_us"), period = number_in(group / "cpu.cfs_period_us");
    if (quota && period && *quota != 0 && *period != 0)
      cpus = std::min(cpus, static_cast<double>(*quota) / static_cast<double>(*period));
  }
  return cpus;
}

struct MemoryLimit {
  std::uint64_t limit = 0;      ///< 0 = none
  std::uint64_t available = 0;  ///< below the limit
};

/// The tightest limit of the groups of one controller.
void tighten(MemoryLimit& memory, const fs::path& root, std::string_view controller, const char* limit_file,
             const char* usage_file, std::uint64_t total) {
  for (const fs::path& group : groups(root, controller)) {
    const auto limit = number_in(group / limit_file);
    if (!limit || *limit >= total) continue;
    const std::uint64_t used = number_in(group / usage_file).value_or(0);
    const std::uint64_t available = *limit > used ? *limit - used : 0;
    memory.available = memory.limit == 0 ? available : std::min(memory.available, available);
    memory.limit = memory.limit == 0 ? *limit : std::min(memory.limit, *limit);
  }
}

std::uint64_t kilobytes(const fs::path& meminfo, std::string_view key) {
  const auto text = field(meminfo, key);
  return text ? parse_number(*text).value_or(0) * 1024 : 0;
}

}  // namespace

std::optional<double> parse_cpu_max(std::string_view text) {
  const std::size_t blank = text.find(' ');
  if (blank == std::string_view::npos) return std::nullopt;
  const auto quota = parse_number(text.substr(0, blank)), period = parse_number(text.substr(blank + 1));
  if (!quota || !period || *quota == 0 || *period == 0) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

Machine read_machine(const fs::path& root) {
  Machine machine;
  const fs::path cpuinfo = root / "proc/cpuinfo", meminfo = root / "proc/meminfo";
  machine.processor = field(cpuinfo, "model name").value_or("");
  auto flags = field(cpuinfo, "flags");
  if (!flags) flags = field(cpuinfo, "Features");
  machine.features = known_features(flags.value_or(""));

  machine.cpus_online = std::max(1U, std::thread::hardware_concurrency());
  double usable = machine.cpus_online;
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0) usable = CPU_COUNT(&allowed);
  machine.cpus_usable = static_cast<unsigned>(std::max(1.0, std::ceil(cpu_quota(root, usable))));

  machine.memory_bytes = kilobytes(meminfo, "MemTotal");
  machine.memory_available_bytes = kilobytes(meminfo, "MemAvailable");
  MemoryLimit limit;
  tighten(limit, root, "", "memory.max", "memory.current", machine.memory_bytes);
  tighten(limit, root, "memory", "memory.limit_in_bytes", "memory.usage_in_bytes", machine.memory_bytes);
  machine.memory_limit_bytes = limit.limit;
  if (limit.limit != 0)
    machine.memory_available_bytes = std::min(machine.memory_available_bytes, limit.available);
  rlimit space = {};  // ulimit -v
  if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY) {
    const std::uint64_t used = kilobytes(root / "proc/self/status", "VmSize");
    const std::uint64_t left = space.rlim_cur > used ? space.rlim_cur - used : 0;
    machine.memory_available_bytes = std::min(machine.memory_available_bytes, left);
  }
  return machine;
}

fs::path find_program(std::string_view name) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const fs::path file = fs::path(folder) / name;
    std::error_code ignored;
    if (!folder.empty() && fs::is_regular_file(file, ignored) && access(file.c_str(), X_OK) == 0) return file;
  }
  return {};
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
