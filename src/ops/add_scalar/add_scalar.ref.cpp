#include "backends/reference/kernels.h"
#include "ops/common/elements.ref.h"

namespace dif::reference {

Status add_scalar(const ir::OpView& op, const runtime::KernelArgs& args) {
  const float value = op.f32("value");
  return map_elements(args, [value](float x) { return x + value; });
}

}  // namespace dif::reference
