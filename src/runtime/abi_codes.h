#pragma once

#include "dif/backend_abi.h"
#include "dif/status.h"
#include "ir/tensor_type.h"
#include "runtime/execution_options.h"
#include "runtime/weight_options.h"

namespace dif::runtime {

/// Our error classes, tensor types and weight options on either side of the C interface.
dif_code to_abi(ErrorCode code);
ErrorCode from_abi(dif_code code);
dif_tensor_type to_abi(const ir::TensorType& type);
/// Errors: InvalidInput (unknown dtype, rank over 8, negative or overflowing dimensions).
Result<ir::TensorType> from_abi(const dif_tensor_type& type);
std::uint32_t to_abi(plan::ResidentOrder order);
/// Errors: InvalidInput (a structure that is too short, unknown flags or order).
Result<WeightOptions> from_abi(const dif_weight_options& weights);
/// Errors: InvalidInput (likewise, and an operation that is named twice).
Result<ExecutionOptions> from_abi(const dif_execution_options& execution);

}  // namespace dif::runtime
