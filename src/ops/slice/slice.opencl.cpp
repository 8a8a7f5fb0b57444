#include "backends/opencl/strided_copy.h"
#include "runtime/axes.h"

namespace dif::opencl {

MakeResult make_slice(const KernelRequest& request) {
  const ir::OpView& op = *request.op;
  const std::vector<std::int64_t> of_x = dense_strides(op.in(0).shape);
  const std::int64_t first = op.i64("start") * of_x[static_cast<std::size_t>(op.i64("axis"))];
  return make_strided_copy(request, {{0, op.out().shape, first, 0, of_x, dense_strides(op.out().shape)}});
}

}  // namespace dif::opencl
