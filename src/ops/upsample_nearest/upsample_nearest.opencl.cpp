#include "backends/opencl/strided_copy.h"
#include "runtime/axes.h"

namespace dif::opencl {

MakeResult make_upsample_nearest(const KernelRequest& request) {
  const Shape &x = request.op->in(0).shape, &y = request.op->out().shape;
  const std::int64_t factor = request.op->i64("factor");
  // y seen as [N C, H, factor, W, factor]: the two factor axes repeat the element of x.
  const Shape seen = {y.dim(0) * y.dim(1), x.dim(2), factor, x.dim(3), factor};
  return make_strided_copy(request,
                           {{0, seen, 0, 0, {x.dim(2) * x.dim(3), x.dim(3), 0, 1, 0}, dense_strides(seen)}});
}

}  // namespace dif::opencl
