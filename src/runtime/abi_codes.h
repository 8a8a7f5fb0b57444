#pragma once

#include "dif/backend_abi.h"
#include "dif/status.h"
#include "ir/tensor_type.h"

namespace dif::runtime {

/// Our error classes and tensor types on either side of the C interface.
dif_code to_abi(ErrorCode code);
ErrorCode from_abi(dif_code code);
dif_tensor_type to_abi(const ir::TensorType& type);
/// Errors: InvalidInput (unknown dtype, rank over 8, negative or overflowing dimensions).
Result<ir::TensorType> from_abi(const dif_tensor_type& type);

}  // namespace dif::runtime
