#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// What files of the operating system say, below a root that tests choose.
namespace dif::io {

/// The first line of a file; nothing where there is no such file.
std::optional<std::string> first_line(const std::filesystem::path& file);
/// The number that a text begins with.
std::optional<std::uint64_t> leading_number(std::string_view text);
std::optional<std::uint64_t> number_in(const std::filesystem::path& file);
/// Of lines "key : value" the first one with this key.
std::optional<std::string> field(const std::filesystem::path& file, std::string_view key);

/// This process's control group and those around it, innermost first, for a controller ("" = version 2).
std::vector<std::filesystem::path> control_groups(const std::filesystem::path& root,
                                                  std::string_view controller);

/// Memory of this computer, and how much of it this process may still have.
struct HostMemory {
  std::uint64_t bytes = 0;
  std::uint64_t limit_bytes = 0;      ///< of the control group; 0 = none
  std::uint64_t available_bytes = 0;  ///< of the system, and below the limits; 0 where it is not known
};
HostMemory read_host_memory(const std::filesystem::path& root = "/");

}  // namespace dif::io
