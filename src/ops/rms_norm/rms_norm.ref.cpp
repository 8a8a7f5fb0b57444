#include <cmath>

#include "backends/reference/kernels.h"
#include "ops/common/elements.ref.h"

namespace dif::reference {

Status rms_norm(const ir::OpView& op, const runtime::KernelArgs& args) {
  const std::int64_t width = op.in(0).dim(-1), rows = op.in(0).numel() / width;
  const double eps = static_cast<double>(op.f32("eps"));
  if (op.out().numel() == 0) return ok();
  return for_float(op.out().dtype, [&]<DType dtype>() {
    const Elements<dtype> x(args.in[0]), y(args.out[0]);
    std::vector<double> weight(static_cast<std::size_t>(width), 1.0), row(weight.size());
    if (op.has(1)) Elements<dtype>(args.in[1]).decode(0, width, weight.data());
    for (std::int64_t r = 0; r < rows; ++r) {
      x.decode(r * width, width, row.data());
      double squares = 0;
      for (const double value : row) squares += value * value;
      const double scale = 1.0 / std::sqrt(squares / static_cast<double>(width) + eps);
      for (std::size_t i = 0; i < row.size(); ++i)
        y.set(r * width + static_cast<std::int64_t>(i), row[i] * scale * weight[i]);
    }
  });
}

}  // namespace dif::reference
