#include "backends/opencl/strided_copy.h"

namespace dif::opencl {

/// Views share storage, so this runs only where an executor gives the result memory of its own.
MakeResult make_reshape(const KernelRequest& request) {
  const std::int64_t count = request.op->out().numel();
  return make_strided_copy(request, {{0, Shape{count}, 0, 0, {1}, {1}}});
}

}  // namespace dif::opencl
