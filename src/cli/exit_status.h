#pragma once

#include "dif/status.h"

namespace dif::cli {

/// The process exit status of a class of errors (docs/exit-status.md). A cancelled run gives 128 + the signal
/// that stopped it.
int exit_status(ErrorCode code);

}  // namespace dif::cli
