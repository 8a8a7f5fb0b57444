#pragma once

#include <cstdint>
#include <vector>

#include "backends/opencl/kernels.h"

namespace dif::opencl {

/// Elements of one operand that go to the result: loops over `shape`, with a start and strides in elements on
/// both sides.
struct CopyPiece {
  std::size_t operand = 0;
  Shape shape;
  std::int64_t from = 0, to = 0;
  std::vector<std::int64_t> from_strides, to_strides;
};

/// A kernel that makes the result of copies, any dtype.
MakeResult make_strided_copy(const KernelRequest& request, const std::vector<CopyPiece>& pieces);

}  // namespace dif::opencl
