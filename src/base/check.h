#pragma once

namespace dif::internal {
[[noreturn]] void check_failed(const char* condition, const char* file, int line);
}

/// Stops the process (exit 70) when an invariant of our own is broken. Never for what a user, file or device
/// can cause: that is a Status.
#define DIF_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::dif::internal::check_failed(#condition, __FILE__, __LINE__))
