#include "backends/reference/kernels.h"
#include "ops/common/copy.ref.h"
#include "runtime/axes.h"

namespace dif::reference {

Status transpose(const ir::OpView& op, const runtime::KernelArgs& args) {
  const std::vector<std::int64_t> of_x = runtime::dense_strides(op.in(0).shape);
  std::vector<std::int64_t> strides[1];
  for (const std::int64_t axis : op.i64s("perm")) strides[0].push_back(of_x[static_cast<std::size_t>(axis)]);
  return copy_elements(op.out(), args.in[0], strides, args.out[0]);
}

}  // namespace dif::reference
