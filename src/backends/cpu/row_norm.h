#pragma once

#include <cstdint>

#include "backends/cpu/kernels.h"

namespace dif::cpu {

/// Rows row .. row+n_rows-1 of a tensor of rows of `columns` elements; w and bias are [columns] or null.
struct NormBlock {
  DType dtype = DType::kF32;
  const void *x = nullptr, *w = nullptr, *bias = nullptr;
  void* y = nullptr;
  float eps = 0;
  std::int64_t columns = 0, row = 0, n_rows = 0;
};

using NormFunction = void (*)(const NormBlock& block);

/// A kernel that calls `function` for blocks of the rows of x; operands are x, w?, bias?.
MakeResult make_row_norm(const KernelRequest& request, NormFunction function);

}  // namespace dif::cpu
