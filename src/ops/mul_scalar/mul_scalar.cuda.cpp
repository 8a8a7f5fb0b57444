#include "backends/cuda/kernels.h"
#include "ops/mul_scalar/mul_scalar.op.h"

namespace dif::cuda {

static std::string mul_scalar_element(const ir::OpView& op, std::span<const std::string> x) {
  return fmt::format("{} * {}", x[0], float_literal(op.f32("value")));
}

const RowOperation kMulScalarRows = {&ops::kMulScalar, emit_element<mul_scalar_element>};

}  // namespace dif::cuda
