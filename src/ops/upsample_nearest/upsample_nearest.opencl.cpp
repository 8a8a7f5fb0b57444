#include "backends/opencl/strided_copy.h"
#include "ops/upsample_nearest/upsample_nearest.op.h"
#include "runtime/axes.h"

namespace dif::opencl {

MakeResult make_upsample_nearest(const KernelRequest& request) {
  const ops::Repeats repeats = ops::repeats(*request.op);
  return make_strided_copy(request,
                           {{0, repeats.shape, 0, 0, repeats.x_strides, dense_strides(repeats.shape)}});
}

}  // namespace dif::opencl
