#include "tests/reliability/table.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>
#include <utility>
#include <vector>

#include "tests/support/run_program.h"

namespace dif::test {

namespace {

/// Rows by section and case, so that the order of the tests does not matter.
std::map<std::string, std::map<std::string, std::string>>& sections() {
  static std::map<std::string, std::map<std::string, std::string>> rows;
  return rows;
}

/// What differs between machines, or whenever a program changes.
std::string cell(std::string text) {
  static const std::vector<std::pair<std::regex, std::string>> rules = {
      {std::regex("[0-9]+ MiB"), "N MiB"},
      {std::regex("[0-9]+ bytes of content, expected [0-9]+"), "N bytes of content, expected N"},
      {std::regex("[0-9]+ bytes more would exceed the memory cap of 1048576 bytes \\([0-9]+ are held"),
       "N bytes more would exceed the memory cap of 1048576 bytes (N are held"},
      {std::regex("input is [0-9.e+-]+[0-9]"), "input is X"},
      {std::regex("operation [0-9]+ "), "operation N "},
      {std::regex("[0-9a-f]{64}"), "DIGEST"},
      {std::regex("\\|"), "\\|"},
  };
  for (const auto& [pattern, replacement] : rules) text = std::regex_replace(text, pattern, replacement);
  return text;
}

std::string table() {
  std::ostringstream text;
  for (const auto& [section, rows] : sections()) {
    text << "## " << section << "\n\n| Case | Exit | Prints |\n|---|---|---|\n";
    for (const auto& [name, row] : rows) text << row;
    text << "\n";
  }
  return text.str();
}

/// Runs after the last test of a run that left none out.
class TableAtTheEnd : public testing::Environment {
 public:
  void TearDown() override {
    const testing::UnitTest& all = *testing::UnitTest::GetInstance();
    if (all.test_to_run_count() != all.total_test_count()) return;
    if (const char* file = std::getenv("DIF_RELIABILITY_TABLE")) std::ofstream(file) << table();
    if (const char* file = std::getenv("DIF_RELIABILITY_DOCUMENT")) {
      const std::string document = read_text(file);
      const auto start = document.find("## ");
      EXPECT_EQ(document.substr(std::min(start, document.size())), table())
          << "docs/reliability.md is not what the programs print now: run dif_reliability_tests with "
             "DIF_RELIABILITY_TABLE=FILE and put FILE below its introduction";
    }
  }
};

const auto* const kTableAtTheEnd = testing::AddGlobalTestEnvironment(new TableAtTheEnd);

}  // namespace

void note_case(const std::string& section, const std::string& name, int exit_status,
               const std::string& prints) {
  const std::string row =
      "| " + cell(name) + " | " + std::to_string(exit_status) + " | " + cell(prints) + " |\n";
  const auto [at, is_new] = sections()[section].emplace(name, row);
  EXPECT_EQ(at->second, row) << "two cases of one name";
}

}  // namespace dif::test
