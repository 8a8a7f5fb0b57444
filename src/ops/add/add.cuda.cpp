#include "backends/cuda/kernels.h"
#include "ops/add/add.op.h"

namespace dif::cuda {

static std::string add_element(const ir::OpView& op, std::span<const std::string> x) {
  // Unsigned numbers wrap around.
  return op.out().dtype == DType::kI32 ? fmt::format("(int)((unsigned){} + (unsigned){})", x[0], x[1])
                                       : fmt::format("{} + {}", x[0], x[1]);
}

const RowOperation kAddRows = {&ops::kAdd, emit_element<add_element>};

}  // namespace dif::cuda
