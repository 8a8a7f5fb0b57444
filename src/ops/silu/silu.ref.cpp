#include <cmath>

#include "backends/reference/kernels.h"
#include "ops/common/elements.ref.h"

namespace dif::reference {

Status silu(const ir::OpView&, const runtime::KernelArgs& args) {
  return map_elements(args, [](double x) { return x / (1.0 + std::exp(-x)); });
}

}  // namespace dif::reference
