#pragma once

#include "dif/backend_abi.h"
#include "dif/status.h"

namespace dif::runtime {

/// One run of a prepared program with the caller's tensors. Errors: InvalidInput (bindings), and those of the
/// program's operations and of the device.
Status run_once(dif_prepared& prepared, const dif_run_options& options);
/// A loop over steps. Errors also: NonFinite, Cancelled (the caller stops after a step).
Status run_loop(dif_prepared& prepared, const dif_loop_options& options);

}  // namespace dif::runtime
