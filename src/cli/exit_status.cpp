#include "cli/exit_status.h"

#include "cli/interrupt.h"

namespace dif::cli {

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

}  // namespace dif::cli
