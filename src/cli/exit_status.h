#pragma once

#include "dif/status.h"

namespace dif::cli {

/// The process exit status of a class of errors (docs/exit-status.md). A cancelled run gives 128 + the signal
/// that stopped it.
int exit_status(ErrorCode code);

/// From now on std::terminate, to which memory that runs out inside a destructor leads, ends the process with
/// a sentence, no temporaries and the exit status of what was thrown.
void end_in_order_on_terminate();

}  // namespace dif::cli
