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

/// The geometry of one convolution.
struct Geometry {
  Shape in, kernel, out;
  std::int64_t row_stride, column_stride, top, left;
  std::int64_t channels_per_group;  ///< of the result
};

/// Adds to `sums`, one row of the result, what kernel channel `weights` [Kh, Kw] of one input channel gives.
template <DType dtype>
void add_channel(const Geometry& g, const double* channel, const Elements<dtype>& w,
                 std::int64_t first_weight, std::int64_t out_row, std::vector<double>& sums) {
  for (std::int64_t kh = 0; kh < g.kernel.dim(2); ++kh) {
    const std::int64_t row = out_row * g.row_stride + kh - g.top;
    if (row < 0 || row >= g.in.dim(2)) continue;
    const double* line = channel + row * g.in.dim(3);
    for (std::int64_t kw = 0; kw < g.kernel.dim(3); ++kw) {
      const double weight = static_cast<double>(w[first_weight + kh * g.kernel.dim(3) + kw]);
      const Columns range = inside(kw, g.left, g.column_stride, g.in.dim(3), g.out.dim(3));
      for (std::int64_t j = range.first; j < range.last; ++j)
        sums[static_cast<std::size_t>(j)] += weight * line[j * g.column_stride + kw - g.left];
    }
  }
}

}  // namespace

Status conv2d(const ir::OpView& op, const runtime::KernelArgs& args) {
  const auto &strides = op.i64s("strides"), &pads = op.i64s("pads");
  const Geometry g = {op.in(0).shape, op.in(1).shape, op.out().shape, strides[0],
                      strides[1],     pads[0],        pads[1],        op.out().dim(1) / op.i64("groups")};
  if (op.out().numel() == 0) return ok();
  return for_float(op.out().dtype, [&]<DType dtype>() {
    const Elements<dtype> x(args.in[0]), w(args.in[1]), y(args.out[0]);
    const std::int64_t channels = g.kernel.dim(1), taps = g.kernel.dim(2) * g.kernel.dim(3);
    const std::int64_t channel_size = g.in.dim(2) * g.in.dim(3), image_size = g.in.dim(1) * channel_size;
    std::vector<double> image(static_cast<std::size_t>(image_size)),
        sums(static_cast<std::size_t>(g.out.dim(3)));
    for (std::int64_t n = 0; n < g.out.dim(0); ++n) {
      x.decode(n * image_size, image_size, image.data());
      for (std::int64_t co = 0; co < g.out.dim(1); ++co) {
        const double bias = op.has(2) ? static_cast<double>(Elements<dtype>(args.in[2])[co]) : 0.0;
        const std::int64_t first_channel = co / g.channels_per_group * channels;
        for (std::int64_t i = 0; i < g.out.dim(2); ++i) {
          std::ranges::fill(sums, bias);
          for (std::int64_t c = 0; c < channels; ++c)
            add_channel(g, image.data() + (first_channel + c) * channel_size, w, (co * channels + c) * taps,
                        i, sums);
          const std::int64_t first = ((n * g.out.dim(1) + co) * g.out.dim(2) + i) * g.out.dim(3);
          for (std::int64_t j = 0; j < g.out.dim(3); ++j) y.set(first + j, sums[static_cast<std::size_t>(j)]);
        }
      }
    }
  });
}

}  // namespace dif::reference
