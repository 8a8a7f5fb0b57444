#include <algorithm>

#include "backends/reference/kernels.h"
#include "ops/common/elements.ref.h"
#include "ops/conv2d/conv2d.op.h"

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

/// Where an element [c, position] of an image, or of one filter, lies: planes of positions, or channels
/// innermost.
struct Layout {
  std::int64_t channels, positions;
  bool channels_last;

  std::int64_t at(std::int64_t c, std::int64_t position) const {
    return channels_last ? position * channels + c : c * positions + position;
  }
};

/// Adds to `sums`, one row of the result, what channel `c` of one filter (its first element is
/// `first_weight`) gives with `plane` [H, W], the channel of the input that it reads.
template <DType dtype>
void add_channel(const ir::OpView& op, const ops::Conv2dSizes& s, const double* plane,
                 const Elements<dtype>& w, std::int64_t first_weight, std::int64_t c, std::int64_t out_row,
                 std::vector<double>& sums) {
  const auto &strides = op.i64s("strides"), &pads = op.i64s("pads");
  const Layout filter = {s.group_ci(), s.kh * s.kw, s.channels_last};
  for (std::int64_t kh = 0; kh < s.kh; ++kh) {
    const std::int64_t row = out_row * strides[0] + kh - pads[0];
    if (row < 0 || row >= s.h) continue;
    const double* line = plane + row * s.w;
    for (std::int64_t kw = 0; kw < s.kw; ++kw) {
      const double weight = static_cast<double>(w[first_weight + filter.at(c, kh * s.kw + kw)]);
      const Columns range = inside(kw, pads[1], strides[1], s.w, s.wo);
      for (std::int64_t j = range.first; j < range.last; ++j)
        sums[static_cast<std::size_t>(j)] += weight * line[j * strides[1] + kw - pads[1]];
    }
  }
}

}  // namespace

Status conv2d(const ir::OpView& op, const runtime::KernelArgs& args) {
  if (op.out().numel() == 0) return ok();
  const ops::Conv2dSizes s = ops::conv2d_sizes(op);
  return for_float(op.out().dtype, [&]<DType dtype>() {
    const Elements<dtype> x(args.in[0]), w(args.in[1]), y(args.out[0]);
    const Layout in = {s.ci, s.h * s.w, s.channels_last}, out = {s.co, s.ho * s.wo, s.channels_last};
    const std::int64_t filter_size = s.group_ci() * s.kh * s.kw;
    std::vector<double> planes(static_cast<std::size_t>(s.ci * s.h * s.w)),
        sums(static_cast<std::size_t>(s.wo));
    for (std::int64_t n = 0; n < s.images; ++n) {
      const std::int64_t first_in = n * s.ci * s.h * s.w, first_out = n * s.co * s.ho * s.wo;
      for (std::int64_t c = 0; c < s.ci; ++c)
        for (std::int64_t p = 0; p < s.h * s.w; ++p)
          planes[static_cast<std::size_t>(c * s.h * s.w + p)] =
              static_cast<double>(x[first_in + in.at(c, p)]);
      for (std::int64_t co = 0; co < s.co; ++co) {
        const double bias = op.has(2) ? static_cast<double>(Elements<dtype>(args.in[2])[co]) : 0.0;
        const std::int64_t first_channel = co / s.group_co() * s.group_ci();
        for (std::int64_t i = 0; i < s.ho; ++i) {
          std::ranges::fill(sums, bias);
          for (std::int64_t c = 0; c < s.group_ci(); ++c)
            add_channel(op, s, planes.data() + (first_channel + c) * s.h * s.w, w, co * filter_size, c, i,
                        sums);
          for (std::int64_t j = 0; j < s.wo; ++j)
            y.set(first_out + out.at(co, i * s.wo + j), sums[static_cast<std::size_t>(j)]);
        }
      }
    }
  });
}

}  // namespace dif::reference
