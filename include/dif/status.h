#pragma once

#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace dif {

/// What went wrong, in the classes that a caller can act on. `exit_status` in src/cli maps each to the
/// process exit status of docs/exit-status.md.
enum class ErrorCode {
  kAnswerNo,      ///< ran, and the answer is no (a comparison or gate failed)                     exit 1
  kNonFinite,     ///< NaN or infinity appeared in a run                                           exit 1
  kInvalidInput,  ///< a file, option or prompt is wrong; the user can fix it                      exit 2
  kNotFound,      ///< a named file, tensor or key does not exist                                  exit 2
  kIo,            ///< reading or writing failed: permissions, disk full, size limit               exit 2
  kUnavailable,   ///< cannot run here: no driver, device, library or plug-in                      exit 3
  kOutOfMemory,   ///< memory cap, device or host too small                                        exit 3
  kDeclined,      ///< one kernel cannot serve an operation; another may (never reaches a user alone)
  kInternal,      ///< our bug: a broken invariant                                                 exit 70
  kCancelled,  ///< Ctrl-C or SIGTERM                                                           exit 130 / 143
};

struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;  ///< one sentence: names the thing, what was expected, what was found, what to do
};

/// A value or the reason why there is none.
template <class T>
class [[nodiscard]] Result : public tl::expected<T, Error> {
 public:
  using tl::expected<T, Error>::expected;
};

using Status = Result<void>;

inline Status ok() {
  return {};
}

}  // namespace dif
