#include "backends/opencl/strided_copy.h"
#include "runtime/axes.h"

namespace dif::opencl {

MakeResult make_transpose(const KernelRequest& request) {
  const ir::OpView& op = *request.op;
  const Shape& y = op.out().shape;
  const std::vector<std::int64_t> of_x = dense_strides(op.in(0).shape);
  CopyPiece piece = {0, y, 0, 0, {}, dense_strides(y)};
  for (const std::int64_t axis : op.i64s("perm"))
    piece.from_strides.push_back(of_x[static_cast<std::size_t>(axis)]);
  return make_strided_copy(request, {piece});
}

}  // namespace dif::opencl
