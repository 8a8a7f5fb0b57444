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

Result<ExecutionOptions> from_abi(const dif_execution_options& execution) {
  if (execution.struct_size < sizeof(execution))
    return invalid_input("dif_execution_options has {} bytes, at least {} are needed", execution.struct_size,
                         sizeof(execution));
  if ((execution.flags & ~(DIF_EXECUTION_MORE_ALGORITHMS | DIF_EXECUTION_STREAM_WEIGHTS)) != 0)
    return invalid_input("execution flags {:#x} are unknown", execution.flags);
  if (execution.attention > DIF_ATTENTION_AUTOTUNE)
    return invalid_input("the attention heuristic {} is unknown", execution.attention);
  if ((execution.n_linears != 0 && execution.linears == nullptr) ||
      (execution.n_resident_constants != 0 && execution.resident_constants == nullptr))
    return invalid_input("choices of {} products and {} constants are announced, none are there",
                         execution.n_linears, execution.n_resident_constants);
  ExecutionOptions result;
  result.more_algorithms = (execution.flags & DIF_EXECUTION_MORE_ALGORITHMS) != 0;
  result.stream_weights = (execution.flags & DIF_EXECUTION_STREAM_WEIGHTS) != 0;
  result.attention = static_cast<AttentionHeuristic>(execution.attention);
  const auto* bytes = reinterpret_cast<const std::byte*>(execution.linears);
  for (std::uint32_t i = 0; i < execution.n_linears; ++i) {
    if (execution.linears->struct_size < sizeof(dif_linear_choice))
      return invalid_input("dif_linear_choice has {} bytes, at least {} are needed",
                           execution.linears->struct_size, sizeof(dif_linear_choice));
    const auto& choice =
        *reinterpret_cast<const dif_linear_choice*>(bytes + std::size_t{i} * execution.linears->struct_size);
    if (std::ranges::find(result.linears, choice.operation, &LinearChoice::operation) != result.linears.end())
      return invalid_input("operation {} is chosen for twice", choice.operation);
    LinearChoice& linear = result.linears.emplace_back();
    linear.operation = choice.operation;
    linear.swiglu = choice.rank == DIF_LINEAR_SWIGLU;
    if (choice.rank != DIF_LINEAR_MEASURED && !linear.swiglu) linear.rank = choice.rank;
    linear.warmups = choice.warmups;
    linear.iterations = choice.iterations;
    linear.sessions = choice.sessions;
  }
  result.resident_constants.assign(execution.resident_constants,
                                   execution.resident_constants + execution.n_resident_constants);
  return result;
}

}  // namespace dif::runtime
