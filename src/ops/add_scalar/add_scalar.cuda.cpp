#include "backends/cuda/kernels.h"
#include "ops/add_scalar/add_scalar.op.h"

namespace dif::cuda {

static std::string add_scalar_element(const ir::OpView& op, std::span<const std::string> x) {
  return fmt::format("{} + {}", x[0], float_literal(op.f32("value")));
}

const RowOperation kAddScalarRows = {&ops::kAddScalar, emit_element<add_scalar_element>};

}  // namespace dif::cuda
