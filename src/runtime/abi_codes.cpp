#include "runtime/abi_codes.h"

#include <algorithm>

#include "base/error.h"

namespace dif::runtime {

dif_code to_abi(ErrorCode code) {
  switch (code) {
    case ErrorCode::kAnswerNo:
      return DIF_ERROR_ANSWER_NO;
    case ErrorCode::kNonFinite:
      return DIF_ERROR_NON_FINITE;
    case ErrorCode::kInvalidInput:
    case ErrorCode::kNotFound:
    case ErrorCode::kIo:
      return DIF_ERROR_INVALID;
    case ErrorCode::kUnavailable:
    case ErrorCode::kDeclined:
      return DIF_ERROR_UNAVAILABLE;
    case ErrorCode::kOutOfMemory:
      return DIF_ERROR_MEMORY;
    case ErrorCode::kInternal:
      return DIF_ERROR_INTERNAL;
    case ErrorCode::kCancelled:
      return DIF_ERROR_CANCELLED;
  }
  return DIF_ERROR_INTERNAL;
}

ErrorCode from_abi(dif_code code) {
  switch (code) {
    case DIF_ERROR_ANSWER_NO:
      return ErrorCode::kAnswerNo;
    case DIF_ERROR_NON_FINITE:
      return ErrorCode::kNonFinite;
    case DIF_ERROR_INVALID:
      return ErrorCode::kInvalidInput;
    case DIF_ERROR_UNAVAILABLE:
      return ErrorCode::kUnavailable;
    case DIF_ERROR_MEMORY:
      return ErrorCode::kOutOfMemory;
    case DIF_ERROR_CANCELLED:
      return ErrorCode::kCancelled;
    default:
      return ErrorCode::kInternal;
  }
}

dif_tensor_type to_abi(const ir::TensorType& type) {
  dif_tensor_type result = {};
  result.dtype = static_cast<dif_dtype>(type.dtype);
  result.rank = static_cast<std::uint32_t>(type.rank());
  std::ranges::copy(type.shape.dims(), result.dims);
  return result;
}

Result<ir::TensorType> from_abi(const dif_tensor_type& type) {
  if (type.dtype >= kDTypeCount) return invalid_input("tensor type: dtype {} is unknown", type.dtype);
  if (type.rank > DIF_MAX_RANK)
    return invalid_input("tensor type: rank {} is over {}", type.rank, DIF_MAX_RANK);
  const ir::TensorType result = {static_cast<DType>(type.dtype), Shape(std::span(type.dims, type.rank))};
  const auto count = result.shape.checked_numel();
  if (!count || *count > INT64_MAX / 8) return invalid_input("tensor type: {} is impossible", result.shape);
  return result;
}

}  // namespace dif::runtime
