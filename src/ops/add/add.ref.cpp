#include "backends/reference/kernels.h"
#include "ops/common/binary.ref.h"

namespace dif::reference {

Status add(const ir::OpView&, const runtime::KernelArgs& args) {
  return map_pairs(args, [](auto x, auto y) { return x + y; });
}

}  // namespace dif::reference
