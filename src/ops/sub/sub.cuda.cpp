#include "backends/cuda/kernels.h"
#include "ops/sub/sub.op.h"

namespace dif::cuda {

static std::string sub_element(const ir::OpView& op, std::span<const std::string> x) {
  // Unsigned numbers wrap around.
  return op.out().dtype == DType::kI32 ? fmt::format("(int)((unsigned){} - (unsigned){})", x[0], x[1])
                                       : fmt::format("{} - {}", x[0], x[1]);
}

const RowOperation kSubRows = {&ops::kSub, emit_element<sub_element>};

}  // namespace dif::cuda
