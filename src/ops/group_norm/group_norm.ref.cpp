#include "backends/reference/kernels.h"
#include "ops/common/elements.ref.h"
#include "ops/common/moments.ref.h"
#include "ops/group_norm/group_norm.op.h"

namespace dif::reference {

Status group_norm(const ir::OpView& op, const runtime::KernelArgs& args) {
  if (op.out().numel() == 0) return ok();
  const ops::GroupNormSizes s = ops::group_norm_sizes(op);
  return for_float(op.out().dtype, [&]<DType dtype>() {
    const Elements<dtype> x(args.in[0]), w(args.in[1]), bias(args.in[2]), y(args.out[0]);
    const auto at = [&](std::int64_t image, std::int64_t channel, std::int64_t position) {
      return s.channels_last ? (image * s.positions + position) * s.channels + channel
                             : (image * s.channels + channel) * s.positions + position;
    };
    std::vector<double> values;
    for (std::int64_t g = 0; g < s.images * s.groups; ++g) {
      const std::int64_t image = g / s.groups, first = g % s.groups * s.group_channels();
      values.clear();
      for (std::int64_t c = 0; c < s.group_channels(); ++c)
        for (std::int64_t p = 0; p < s.positions; ++p)
          values.push_back(static_cast<double>(x[at(image, first + c, p)]));
      const Moments m = moments(values, op.f32("eps"));
      auto value = values.begin();
      for (std::int64_t c = 0; c < s.group_channels(); ++c)
        for (std::int64_t p = 0; p < s.positions; ++p) {
          const double normal = (*value++ - m.mean) * m.scale;
          y.set(at(image, first + c, p),
                normal * static_cast<double>(w[first + c]) + static_cast<double>(bias[first + c]));
        }
    }
  });
}

}  // namespace dif::reference
