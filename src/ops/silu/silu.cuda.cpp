#include "backends/cuda/kernels.h"
#include "ops/silu/silu.op.h"

namespace dif::cuda {

std::string silu_text(std::string_view x) {
  return fmt::format("{0} / (1.0f + expf(-{0}))", x);
}

static std::string silu_element(const ir::OpView&, std::span<const std::string> x) {
  return silu_text(x[0]);
}

const RowOperation kSiluRows = {&ops::kSilu, emit_element<silu_element>};

}  // namespace dif::cuda
