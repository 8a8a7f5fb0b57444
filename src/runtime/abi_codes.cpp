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

std::uint32_t to_abi(plan::ResidentOrder order) {
  switch (order) {
    case plan::ResidentOrder::kFirst:
      return DIF_RESIDENT_FIRST;
    case plan::ResidentOrder::kLargest:
      return DIF_RESIDENT_LARGEST;
    case plan::ResidentOrder::kSpread:
      break;
  }
  return DIF_RESIDENT_SPREAD;
}

Result<WeightOptions> from_abi(const dif_weight_options& weights) {
  constexpr std::uint32_t kKnown =
      DIF_WEIGHTS_HOST_PINNED | DIF_WEIGHTS_SERIAL | DIF_WEIGHTS_LAZY | DIF_WEIGHTS_RELEASE_PAGES;
  if (weights.struct_size < sizeof(weights))
    return invalid_input("dif_weight_options has {} bytes, at least {} are needed", weights.struct_size,
                         sizeof(weights));
  if ((weights.flags & ~kKnown) != 0) return invalid_input("weight flags {:#x} are unknown", weights.flags);
  if (weights.order > DIF_RESIDENT_LARGEST)
    return invalid_input("the resident order {} is unknown", weights.order);
  if (weights.staging_buffers == 1 || weights.staging_buffers > kMostStagingBuffers)
    return invalid_input("{} staging buffers: expected 2 to {}, or 0", weights.staging_buffers,
                         kMostStagingBuffers);
  if (weights.threads > kMostReadingThreads)
    return invalid_input("{} threads that read: expected up to {}", weights.threads, kMostReadingThreads);
  WeightOptions result;
  result.budget_bytes = weights.budget_bytes;
  result.least_free_bytes = weights.least_free_bytes;
  for (const auto order : {plan::ResidentOrder::kFirst, plan::ResidentOrder::kLargest})
    if (to_abi(order) == weights.order) result.order = order;
  result.prefetch_distance = weights.prefetch_distance;
  result.host_pinned = (weights.flags & DIF_WEIGHTS_HOST_PINNED) != 0;
  result.serial = (weights.flags & DIF_WEIGHTS_SERIAL) != 0;
  result.lazy = (weights.flags & DIF_WEIGHTS_LAZY) != 0;
  result.release_pages = (weights.flags & DIF_WEIGHTS_RELEASE_PAGES) != 0;
  result.threads = weights.threads;
  if (weights.staging_buffers != 0) result.n_buffers = weights.staging_buffers;
  return result;
}

}  // namespace dif::runtime
