#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/command.h"
#include "dif/status.h"
#include "ir/program.h"
#include "runtime/execution_options.h"

namespace dif::tools {

/// Where an option names an operation by its number, more is a mistake in whatever program.
inline constexpr std::int64_t kMostOperations = INT64_C(1) << 31;

/// Decisions about exact operations of a program that are taken from the backend: which algorithm computes a
/// product and whether what follows is part of it, how the attention library looks for its kernel, which
/// constants stay on the device.
class ExecutionChoices {
 public:
  /// As `difrun` spells them; other tools have other words for a measurement.
  struct Names {
    const char* tune = "--tune-linear";
    const char* warmups = "--linear-tune-warmups";
    const char* iterations = "--linear-tune-iterations";
    const char* sessions = "--linear-tune-sessions";
  };
  ExecutionChoices(cli::Command& command, const Names& names);

  /// Errors: InvalidInput (an operation or constant that the program does not have; a choice that is to be
  /// kept, and `cache_folder` is empty).
  Result<runtime::ExecutionOptions> options(const ir::Program& program,
                                            const std::string& cache_folder) const;
  /// Tells the user what has no meaning on a backend.
  void warn_unused(const std::string& backend) const;

 private:
  Names names_;
  std::vector<std::int64_t> tuned_, fused_;
  std::vector<std::string> selected_, resident_;
  std::uint32_t warmups_ = 0, iterations_ = 0, sessions_ = 0;
  bool more_algorithms_ = false, persists_ = false;
  std::string heuristic_;
};

}  // namespace dif::tools
