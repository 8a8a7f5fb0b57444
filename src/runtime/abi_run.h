#pragma once

#include "dif/backend_abi.h"
#include "dif/status.h"

namespace dif::runtime {

/// One run of a prepared program with the caller's tensors. Errors: InvalidInput (bindings), and those of the
/// program's operations and of the device; also those of the run before, where that went ahead.
Status run_once(dif_prepared& prepared, const dif_run_options& options);
/// A loop over steps. Errors also: NonFinite, Cancelled (the caller stops after a step).
Status run_loop(dif_prepared& prepared, const dif_loop_options& options);
/// Waits for a run that went ahead. Errors: that run's.
Status settle(dif_context& context);

}  // namespace dif::runtime
