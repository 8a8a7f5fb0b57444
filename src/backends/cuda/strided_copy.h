#pragma once

#include <cstdint>
#include <vector>

#include "backends/cuda/kernels.h"

namespace dif::cuda {

/// Elements of one operand that go to the result: loops over `shape`, with a start and strides in elements on
/// both sides.
struct CopyPiece {
  std::size_t operand = 0;
  Shape shape;
  std::int64_t from = 0, to = 0;
  std::vector<std::int64_t> from_strides, to_strides;
};

/// A kernel that makes the result of copies, any dtype: up to 16 bytes at a time where both sides step
/// evenly, through tiles in shared memory where the innermost axis of one side is another axis of the other.
MakeResult make_strided_copy(const KernelRequest& request, const std::vector<CopyPiece>& pieces);

}  // namespace dif::cuda
