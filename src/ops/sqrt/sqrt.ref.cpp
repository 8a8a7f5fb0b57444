#include <cmath>

#include "backends/reference/kernels.h"
#include "ops/common/elements.ref.h"

namespace dif::reference {

Status sqrt(const ir::OpView&, const runtime::KernelArgs& args) {
  return map_elements(args, [](float x) { return std::sqrt(x); });
}

}  // namespace dif::reference
