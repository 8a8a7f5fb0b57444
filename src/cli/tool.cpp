#include "cli/tool.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>

#include "base/error.h"
#include "cli/exit_status.h"
#include "cli/interrupt.h"

namespace dif::cli {

namespace {

int finish(const Error& error) {
  say(fmt::format("{}: {}\n", error.code == ErrorCode::kCancelled ? "stopped" : "error", error.message));
  return exit_status(error.code);
}

}  // namespace

int run_tool(Command& command, int argc, char** argv, const std::function<Status()>& body,
             WithoutArguments without_arguments) {
  end_in_order_on_terminate();
  watch_interrupts();
  try {
    if (argc <= 1 && without_arguments == WithoutArguments::kPrintUsage) {
      std::fputs(command.help().c_str(), stderr);
      return 2;
    }
    const auto request = command.parse({argv + 1, argv + argc});
    if (!request) return finish(request.error());
    const Status status = *request == Command::Request::kHelp ? print_result(command.help()) : body();
    return status ? 0 : finish(status.error());
  } catch (const std::bad_alloc&) {
    // There may be no memory for a sentence of our own either.
    std::fputs("error: the system has no memory left; choose a smaller size\n", stderr);
    return exit_status(ErrorCode::kOutOfMemory);
  } catch (const std::exception& exception) {
    return finish(
        {ErrorCode::kInternal, fmt::format("unexpected: {}; please report this", exception.what())});
  }
}

void say(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
}

void print_warning(std::string_view sentence) {
  say(fmt::format("warning: {}\n", sentence));
}

Status print_result(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0)
    return ok();
  if (errno == EPIPE) return ok();  // as in `| head`: the reader has what it wanted
  return fail(ErrorCode::kIo, "standard output cannot be written: {}", std::strerror(errno));
}

}  // namespace dif::cli
