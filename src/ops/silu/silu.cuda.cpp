#include "backends/cuda/kernels.h"
#include "ops/silu/silu.op.h"

namespace dif::cuda {

std::string silu_text(DType result, std::string_view x) {
  // An exact quotient costs more than the memory traffic of an element of 16 bits.
  return dtype_size(result) == 2 ? fmt::format("{0} * quick_reciprocal(1.0f + quick_exp(-{0}))", x)
                                 : fmt::format("{0} / (1.0f + expf(-{0}))", x);
}

static std::string silu_element(const ir::OpView& op, std::span<const std::string> x) {
  return silu_text(op.out().dtype, x[0]);
}

const RowOperation kSiluRows = {&ops::kSilu, emit_element<silu_element>};

}  // namespace dif::cuda
