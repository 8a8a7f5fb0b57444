#pragma once

#include <vector>

#include "backends/opencl/kernels.h"
#include "runtime/axes.h"

namespace dif::opencl {

using runtime::CopyPiece;

/// A kernel that makes the result of copies, any dtype.
MakeResult make_strided_copy(const KernelRequest& request, const std::vector<CopyPiece>& pieces);

}  // namespace dif::opencl
