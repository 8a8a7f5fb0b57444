#include <array>

#include "backends/reference/kernels.h"

#define DIF_OP(Name, folder)      \
  namespace dif::ops {            \
  extern const ir::OpDef k##Name; \
  }
#include "ops/ops.def"
#undef DIF_OP

namespace dif::reference {

std::span<const runtime::KernelEntry> kernel_list() {
  static const std::array kList = {
#define DIF_OP(Name, folder) \
  runtime::KernelEntry{&ops::k##Name, "reference", runtime::function_kernel<folder>},
#include "ops/ops.def"
#undef DIF_OP
  };
  return kList;
}

}  // namespace dif::reference
