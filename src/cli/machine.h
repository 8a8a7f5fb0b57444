#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dif::cli {

/// What the operating system says about this computer, and how much of it this process may use.
struct Machine {
  std::string processor;              ///< as it calls itself; empty when not known
  std::vector<std::string> features;  ///< instruction sets that our kernels or libraries make use of
  unsigned cpus_online = 1;
  unsigned cpus_usable = 1;  ///< affinity mask and control group's quota, rounded up
  std::uint64_t memory_bytes = 0;
  std::uint64_t memory_limit_bytes = 0;      ///< of the control group; 0 = none
  std::uint64_t memory_available_bytes = 0;  ///< what can still be had: of the system, and below the limits
};

/// Reads proc/ and sys/fs/cgroup/ (version 2, or 1) below `root`; what is not there stays at its default.
Machine read_machine(const std::filesystem::path& root = "/");

/// CPUs of a cgroup v2 cpu.max: "max 100000" has no limit, "250000 100000" is 2.5.
std::optional<double> parse_cpu_max(std::string_view text);

/// Where compiled kernels and chosen algorithms are kept: DIF_CACHE_DIR, else
/// $XDG_CACHE_HOME/diffusion-compiler, else ~/.cache/diffusion-compiler; empty when none of the variables is
/// set.
std::filesystem::path cache_folder();

}  // namespace dif::cli
