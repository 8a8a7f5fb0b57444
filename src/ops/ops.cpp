#include <array>

#include "ir/op_def.h"

namespace dif::ops {
#define DIF_OP(Name, folder) extern const ir::OpDef k##Name;
#include "ops/ops.def"
#undef DIF_OP
}  // namespace dif::ops

namespace dif::ir {

std::span<const OpDef* const> all_ops() {
  static constexpr std::array kAll = {
#define DIF_OP(Name, folder) &ops::k##Name,
#include "ops/ops.def"
#undef DIF_OP
  };
  return kAll;
}

}  // namespace dif::ir
