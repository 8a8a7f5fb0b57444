#pragma once

#include <cstdint>

#include "backends/cpu/kernels.h"

namespace dif::cpu {

/// Elements first .. first+n-1 of an element-wise operation, x and y of one floating dtype.
struct PointwiseBlock {
  DType dtype = DType::kF32;
  const void* x = nullptr;
  void* y = nullptr;
  float value = 0;  ///< the operation's scalar, if it has one
  std::int64_t first = 0, n = 0;
  bool past_caches = false;  ///< the result is written past the caches
};

using PointwiseFunction = void (*)(const PointwiseBlock& block);

/// A kernel that calls `function` for blocks of the tensor.
MakeResult make_pointwise(const KernelRequest& request, PointwiseFunction function, float value = 0);

}  // namespace dif::cpu
