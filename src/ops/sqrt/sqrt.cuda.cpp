#include "backends/cuda/kernels.h"
#include "ops/sqrt/sqrt.op.h"

namespace dif::cuda {

static std::string sqrt_element(const ir::OpView&, std::span<const std::string> x) {
  return fmt::format("sqrtf({})", x[0]);
}

const RowOperation kSqrtRows = {&ops::kSqrt, emit_element<sqrt_element>};

}  // namespace dif::cuda
