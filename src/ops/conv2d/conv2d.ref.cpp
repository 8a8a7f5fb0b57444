#include <algorithm>

#include "backends/reference/kernels.h"
#include "ops/common/elements.ref.h"

namespace dif::reference {

namespace {

/// Result columns for which tap `k` of a kernel row falls inside the input.
struct Columns {
  std::int64_t first;
  std::int64_t last;  ///< one past
};

Columns inside(std::int64_t k, std::int64_t pad, std::int64_t stride, std::int64_t in, std::int64_t out) {
  // first * stride + k - pad >= 0 and (last - 1) * stride + k - pad <= in - 1
  const std::int64_t first = pad > k ? (pad - k + stride - 1) / stride : 0;
  const std::int64_t room = in - 1 + pad - k;
  const std::int64_t last = room < 0 ? 0 : room / stride + 1;
  return {std::min(first, out), std::min(last, out)};
}

}  // namespace

Status conv2d(const ir::OpView& op, const runtime::KernelArgs& args) {
  const Shape &in = op.in(0).shape, &kernel = op.in(1).shape, &out = op.out().shape;
  const auto &strides = op.i64s("strides"), &pads = op.i64s("pads");
  const std::int64_t channels = kernel.dim(1), out_channels = out.dim(1),
                     per_group = out_channels / op.i64("groups");
  const std::int64_t rows = in.dim(2), columns = in.dim(3), out_columns = out.dim(3);
  if (op.out().numel() == 0) return ok();
  return for_float(op.out().dtype, [&]<DType dtype>() {
    const Elements<dtype> x(args.in[0]), w(args.in[1]), y(args.out[0]);
    const std::int64_t image_size = in.dim(1) * rows * columns;
    std::vector<double> image(static_cast<std::size_t>(image_size)),
        sums(static_cast<std::size_t>(out_columns));
    for (std::int64_t n = 0; n < out.dim(0); ++n) {
      x.decode(n * image_size, image_size, image.data());
      for (std::int64_t co = 0; co < out_channels; ++co)
        for (std::int64_t i = 0; i < out.dim(2); ++i) {
          std::ranges::fill(sums, op.has(2) ? static_cast<double>(Elements<dtype>(args.in[2])[co]) : 0.0);
          for (std::int64_t c = 0; c < channels; ++c)
            for (std::int64_t kh = 0; kh < kernel.dim(2); ++kh) {
              const std::int64_t row = i * strides[0] + kh - pads[0];
              if (row < 0 || row >= rows) continue;
              const double* line = image.data() + ((co / per_group * channels + c) * rows + row) * columns;
              for (std::int64_t kw = 0; kw < kernel.dim(3); ++kw) {
                const double weight =
                    static_cast<double>(w[((co * channels + c) * kernel.dim(2) + kh) * kernel.dim(3) + kw]);
                const Columns range = inside(kw, pads[1], strides[1], columns, out_columns);
                for (std::int64_t j = range.first; j < range.last; ++j)
                  sums[static_cast<std::size_t>(j)] += weight * line[j * strides[1] + kw - pads[1]];
              }
            }
          for (std::int64_t j = 0; j < out_columns; ++j)
            y.set(((n * out_channels + co) * out.dim(2) + i) * out_columns + j,
                  sums[static_cast<std::size_t>(j)]);
        }
    }
  });
}

}  // namespace dif::reference
