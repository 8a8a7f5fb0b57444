#include "cli/exit_status.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <exception>
#include <new>

#include "cli/interrupt.h"
#include "io/atomic_file.h"

namespace dif::cli {

namespace {

std::atomic<bool> allocation_failed = false;

[[noreturn]] void on_no_memory() {
  allocation_failed = true;
  throw std::bad_alloc();
}

/// What a noexcept function of the standard library did not let through is no current exception: then an
/// allocation that failed is the likely reason.
bool memory_ran_out() noexcept {
  if (!std::current_exception()) return allocation_failed;
  try {
    std::rethrow_exception(std::current_exception());
  } catch (const std::bad_alloc&) {
    return true;
  } catch (...) {
  }
  return false;
}

[[noreturn]] void on_terminate() {
  io::remove_pending_temporaries();
  const bool no_memory = memory_ran_out();
  std::fputs(no_memory ? "error: the system has no memory left; choose a smaller size\n"
                       : "error: the program ended where it never should; please report this\n",
             stderr);
  _exit(exit_status(no_memory ? ErrorCode::kOutOfMemory : ErrorCode::kInternal));
}

}  // namespace

int exit_status(ErrorCode code) {
  switch (code) {
    case ErrorCode::kAnswerNo:
    case ErrorCode::kNonFinite:
      return 1;
    case ErrorCode::kInvalidInput:
    case ErrorCode::kNotFound:
    case ErrorCode::kIo:
      return 2;
    case ErrorCode::kUnavailable:
    case ErrorCode::kOutOfMemory:
      return 3;
    case ErrorCode::kDeclined:
    case ErrorCode::kInternal:
      return 70;
    case ErrorCode::kCancelled:
      return 128 + (received_signal() != 0 ? received_signal() : 2);
  }
  return 70;
}

void end_in_order_on_terminate() {
  std::set_new_handler(on_no_memory);
  std::set_terminate(on_terminate);
}

}  // namespace dif::cli
