#include <cmath>

#include "backends/reference/kernels.h"
#include "ops/common/elements.ref.h"
#include "ops/timestep_embedding/timestep_embedding.op.h"

namespace dif::reference {

Status timestep_embedding(const ir::OpView& op, const runtime::KernelArgs& args) {
  const Elements<DType::kF32> t(args.in[0]), y(args.out[0]);
  const std::int64_t width = op.i64("width"), half = width / 2;
  const std::vector<float> frequencies = ops::timestep_frequencies(op);
  for (std::int64_t i = 0; i < half; ++i) {
    const float frequency = frequencies[static_cast<std::size_t>(i)];
    for (std::int64_t n = 0; n < op.in(0).dim(0); ++n) {
      const double angle = static_cast<double>(t[n] * frequency);
      y.set(n * width + i, std::cos(angle));
      y.set(n * width + half + i, std::sin(angle));
    }
  }
  return ok();
}

}  // namespace dif::reference
