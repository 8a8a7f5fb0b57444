#include <cstring>

#include "backends/reference/kernels.h"
#include "ops/common/elements.ref.h"

namespace dif::reference {

Status slice(const ir::OpView& op, const runtime::KernelArgs& args) {
  const Shape &x = op.in(0).shape, &y = op.out().shape;
  const int axis = static_cast<int>(op.i64("axis"));
  const std::int64_t inner =
      product(x, axis + 1, x.rank()) * static_cast<std::int64_t>(dtype_size(op.out().dtype));  // bytes
  const std::int64_t from_step = x.dim(axis) * inner, to_step = y.dim(axis) * inner;
  if (op.out().numel() == 0) return ok();
  const std::byte* from = args.in[0].buffer.pointer() + op.i64("start") * inner;
  std::byte* to = args.out[0].buffer.pointer();
  for (std::int64_t outer = product(x, 0, axis); outer > 0; --outer, from += from_step, to += to_step)
    std::memcpy(to, from, static_cast<std::size_t>(to_step));
  return ok();
}

}  // namespace dif::reference
