#include "backends/reference/kernels.h"
#include "ops/common/elements.ref.h"
#include "ops/common/moments.ref.h"

namespace dif::reference {

Status group_norm(const ir::OpView& op, const runtime::KernelArgs& args) {
  const Shape& shape = op.in(0).shape;
  const std::int64_t channels = shape.dim(1), positions = product(shape, 2, shape.rank());
  const std::int64_t groups = op.i64("groups"), group_channels = channels / groups;
  const std::int64_t group_size = group_channels * positions;
  if (op.out().numel() == 0) return ok();
  return for_float(op.out().dtype, [&]<DType dtype>() {
    const Elements<dtype> x(args.in[0]), w(args.in[1]), bias(args.in[2]), y(args.out[0]);
    std::vector<double> values(static_cast<std::size_t>(group_size));
    for (std::int64_t g = 0; g < shape.dim(0) * groups; ++g) {
      x.decode(g * group_size, group_size, values.data());
      const Moments m = moments(values, op.f32("eps"));
      for (std::int64_t i = 0; i < group_size; ++i) {
        const std::int64_t channel = g % groups * group_channels + i / positions;
        const double normal = (values[static_cast<std::size_t>(i)] - m.mean) * m.scale;
        y.set(g * group_size + i,
              normal * static_cast<double>(w[channel]) + static_cast<double>(bias[channel]));
      }
    }
  });
}

}  // namespace dif::reference
