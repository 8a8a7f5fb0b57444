#include "io/system_files.h"

#include <sys/resource.h>

#include <algorithm>
#include <charconv>
#include <fstream>

namespace dif::io {

namespace fs = std::filesystem;

std::optional<std::string> first_line(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  if (!std::getline(in, line)) return std::nullopt;
  return line;
}

std::optional<std::uint64_t> leading_number(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return number;
}

std::optional<std::uint64_t> number_in(const fs::path& file) {
  const auto line = first_line(file);
  return line ? leading_number(*line) : std::nullopt;
}

std::optional<std::string> field(const fs::path& file, std::string_view key) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(key)) continue;
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos || line.find_first_not_of(" \t", key.size()) != colon) continue;
    const std::size_t start = line.find_first_not_of(" \t", colon + 1);
    return start == std::string::npos ? "" : line.substr(start);
  }
  return std::nullopt;
}

std::vector<fs::path> control_groups(const fs::path& root, std::string_view controller) {
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

namespace {

struct MemoryLimit {
  std::uint64_t limit = 0;      ///< 0 = none
  std::uint64_t available = 0;  ///< below the limit
};

/// The tightest limit of the groups of one controller.
void tighten(MemoryLimit& memory, const fs::path& root, std::string_view controller, const char* limit_file,
             const char* usage_file, std::uint64_t total) {
  for (const fs::path& group : control_groups(root, controller)) {
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
  return text ? leading_number(*text).value_or(0) * 1024 : 0;
}

}  // namespace

HostMemory read_host_memory(const fs::path& root) {
  HostMemory memory;
  const fs::path meminfo = root / "proc/meminfo";
  memory.bytes = kilobytes(meminfo, "MemTotal");
  memory.available_bytes = kilobytes(meminfo, "MemAvailable");
  MemoryLimit limit;
  tighten(limit, root, "", "memory.max", "memory.current", memory.bytes);
  tighten(limit, root, "memory", "memory.limit_in_bytes", "memory.usage_in_bytes", memory.bytes);
  memory.limit_bytes = limit.limit;
  if (limit.limit != 0) memory.available_bytes = std::min(memory.available_bytes, limit.available);
  rlimit space = {};  // ulimit -v
  if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY) {
    const std::uint64_t used = kilobytes(root / "proc/self/status", "VmSize");
    const std::uint64_t left = space.rlim_cur > used ? space.rlim_cur - used : 0;
    memory.available_bytes = std::min(memory.available_bytes, left);
  }
  return memory;
}

}  // namespace dif::io
