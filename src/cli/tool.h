#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "cli/command.h"
#include "dif/status.h"

namespace dif::cli {

/// One tool of the multi-call binary. `difrun ...` and `dif run ...` are the same tool.
struct Tool {
  std::string_view name;     ///< "difrun", or "generate" for a tool that is reached through dif alone
  std::string_view group;    ///< heading in `dif help`
  std::string_view summary;  ///< one line
  int (*run)(int argc, char** argv);
};

enum class WithoutArguments { kPrintUsage, kRun };

/// Parses, runs `body`, prints the error as one sentence on stderr and gives the exit status. Without
/// arguments the usage is printed (exit 2), unless that is how the tool is meant to be called; --help prints
/// it with the examples (exit 0); a usage error exits 2. Watches Ctrl-C.
int run_tool(Command& command, int argc, char** argv, const std::function<Status()>& body,
             WithoutArguments without_arguments = WithoutArguments::kPrintUsage);

/// Prints on stderr as it is. A stderr that is full or closed is no error: nobody could be told.
void say(std::string_view text);
/// Prints one sentence on stderr.
void print_warning(std::string_view sentence);
/// Prints on stdout. A reader that closed its end of the pipe is no error. Errors: Io (disk full).
Status print_result(std::string_view text);

}  // namespace dif::cli
