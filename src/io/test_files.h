#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dif/status.h"

/// Small helpers of this room's tests.
namespace dif::io {

inline std::vector<std::byte> as_bytes(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

inline std::string slurp(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline void spit(const std::filesystem::path& path, std::string_view content) {
  std::ofstream(path, std::ios::binary) << content;
}

inline void spit(const std::filesystem::path& path, std::span<const std::byte> content) {
  spit(path, std::string_view(reinterpret_cast<const char*>(content.data()), content.size()));
}

/// The names in a folder, to see that nothing was left behind.
inline std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename().native());
  std::sort(names.begin(), names.end());
  return names;
}

/// Refused with `code`, in a message that holds each of `parts` and is one line.
template <class T>
void expect_refused(const Result<T>& result, ErrorCode code, const std::vector<std::string>& parts) {
  ASSERT_FALSE(result) << "accepted";
  const std::string& message = result.error().message;
  EXPECT_EQ(static_cast<int>(result.error().code), static_cast<int>(code)) << message;
  for (const std::string& part : parts)
    EXPECT_NE(message.find(part), std::string::npos) << message << "\nlacks " << part;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
}

}  // namespace dif::io
