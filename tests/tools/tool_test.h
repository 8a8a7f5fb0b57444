#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "io/host_tensor.h"
#include "io/tensor_file.h"
#include "tests/support/run_program.h"

namespace dif::test {

using Arguments = std::vector<std::string>;

inline Arguments operator+(Arguments a, const Arguments& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// A test that runs tools in a folder of its own.
class ToolTest : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  Finished run(const std::string& tool, std::vector<std::string> arguments,
               const Running::Environment& environment = {}) const {
    return run_program(tool, std::move(arguments), folder_.path(), environment);
  }

  /// Runs a tool that must succeed; gives its stdout.
  std::string succeed(const std::string& tool, std::vector<std::string> arguments,
                      const Running::Environment& environment = {}) const {
    const Finished finished = run(tool, std::move(arguments), environment);
    EXPECT_EQ(finished.status, 0) << finished.out << finished.err;
    return finished.out;
  }

  /// Runs a tool that must fail: this status, nothing on stdout, and a last line "error: ..." with `part` on
  /// stderr.
  void fail(const std::string& tool, std::vector<std::string> arguments, int status, const std::string& part,
            const Running::Environment& environment = {}) const {
    std::string shown = tool;
    for (const std::string& argument : arguments) shown += " " + argument;
    const Finished finished = run(tool, std::move(arguments), environment);
    EXPECT_EQ(finished.status, status) << shown << "\n" << finished.err;
    EXPECT_EQ(finished.out, "") << shown;
    EXPECT_NE(last_line(finished.err).find(part), std::string::npos) << shown << "\n" << finished.err;
    EXPECT_EQ(last_line(finished.err).rfind("error: ", 0), 0U) << shown << "\n" << finished.err;
  }

  static std::string last_line(std::string text) {
    while (text.ends_with('\n')) text.pop_back();
    const std::size_t newline = text.rfind('\n');
    return newline == std::string::npos ? text : text.substr(newline + 1);
  }

  std::string write(const std::string& name, const io::HostTensor& tensor) const {
    const Status status = io::write_tensor_file(path(name), tensor);
    EXPECT_TRUE(status) << status.error().message;
    return path(name);
  }

  /// Names of what is in the folder.
  std::set<std::string> files() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
      names.insert(entry.path().filename());
    return names;
  }

  ScratchDir folder_;
};

}  // namespace dif::test
