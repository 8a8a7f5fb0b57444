#pragma once

#include <vector>

#include "backends/cuda/kernels.h"
#include "runtime/axes.h"

namespace dif::cuda {

using runtime::CopyPiece;

/// A kernel that makes the result of copies, any dtype: up to 16 bytes at a time where both sides step
/// evenly, through tiles in shared memory where the innermost axis of one side is another axis of the other.
MakeResult make_strided_copy(const KernelRequest& request, const std::vector<CopyPiece>& pieces);

}  // namespace dif::cuda
