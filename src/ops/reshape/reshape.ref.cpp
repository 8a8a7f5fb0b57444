#include <cstring>

#include "backends/reference/kernels.h"

namespace dif::reference {

Status reshape(const ir::OpView& op, const runtime::KernelArgs& args) {
  const std::byte* x = args.in[0].buffer.pointer();
  std::byte* y = args.out[0].buffer.pointer();
  if (x != y && op.out().numel() != 0) std::memmove(y, x, op.out().bytes());
  return ok();
}

}  // namespace dif::reference
