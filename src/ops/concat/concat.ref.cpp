#include <cstring>

#include "backends/reference/kernels.h"
#include "ops/common/elements.ref.h"

namespace dif::reference {

Status concat(const ir::OpView& op, const runtime::KernelArgs& args) {
  const Shape& y = op.out().shape;
  const int axis = static_cast<int>(op.i64("axis"));
  const std::int64_t inner =
      product(y, axis + 1, y.rank()) * static_cast<std::int64_t>(dtype_size(op.out().dtype));  // bytes
  if (op.out().numel() == 0) return ok();
  std::byte* to = args.out[0].buffer.pointer();
  for (std::int64_t outer = 0; outer < product(y, 0, axis); ++outer)
    for (std::size_t i = 0; i < op.n_ins(); ++i) {
      const std::int64_t run = op.in(i).dim(axis) * inner;
      if (run == 0) continue;
      std::memcpy(to, args.in[i].buffer.pointer() + outer * run, static_cast<std::size_t>(run));
      to += run;
    }
  return ok();
}

}  // namespace dif::reference
