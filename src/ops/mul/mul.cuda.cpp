#include "backends/cuda/kernels.h"
#include "ops/mul/mul.op.h"

namespace dif::cuda {

static std::string mul_element(const ir::OpView& op, std::span<const std::string> x) {
  // Unsigned numbers wrap around.
  return op.out().dtype == DType::kI32 ? fmt::format("(int)((unsigned){} * (unsigned){})", x[0], x[1])
                                       : fmt::format("{} * {}", x[0], x[1]);
}

const RowOperation kMulRows = {&ops::kMul, emit_element<mul_element>};

}  // namespace dif::cuda
