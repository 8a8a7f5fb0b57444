#include <algorithm>

#include "backends/reference/kernels.h"
#include "ops/common/elements.ref.h"

namespace dif::reference {

namespace {

/// Result columns computed together, so that a row of x is read once for all of them.
constexpr std::int64_t kColumns = 16;

/// panel[i * kColumns + c] = w[first + c][i], zero beyond the last column.
template <DType dtype>
void load_panel(const Elements<dtype>& w, std::int64_t first, std::int64_t columns, std::int64_t width,
                std::vector<double>& panel) {
  std::ranges::fill(panel, 0.0);
  for (std::int64_t c = 0; c < columns; ++c)
    for (std::int64_t i = 0; i < width; ++i)
      panel[static_cast<std::size_t>(i * kColumns + c)] = static_cast<double>(w[(first + c) * width + i]);
}

}  // namespace

Status linear(const ir::OpView& op, const runtime::KernelArgs& args) {
  const std::int64_t width = op.in(1).dim(1), n_out = op.in(1).dim(0);
  const std::int64_t rows = product(op.in(0).shape, 0, op.in(0).rank() - 1);
  if (op.out().numel() == 0) return ok();
  return for_float(op.out().dtype, [&]<DType dtype>() {
    const Elements<dtype> x(args.in[0]), w(args.in[1]), y(args.out[0]);
    std::vector<double> panel(static_cast<std::size_t>(width * kColumns)),
        row(static_cast<std::size_t>(width));
    for (std::int64_t first = 0; first < n_out; first += kColumns) {
      const std::int64_t columns = std::min(kColumns, n_out - first);
      load_panel(w, first, columns, width, panel);
      for (std::int64_t r = 0; r < rows; ++r) {
        x.decode(r * width, width, row.data());
        double sums[kColumns] = {};
        for (std::int64_t i = 0; i < width; ++i)
          for (std::int64_t c = 0; c < kColumns; ++c)
            sums[c] += row[static_cast<std::size_t>(i)] * panel[static_cast<std::size_t>(i * kColumns + c)];
        for (std::int64_t c = 0; c < columns; ++c) {
          const double bias = op.has(2) ? static_cast<double>(Elements<dtype>(args.in[2])[first + c]) : 0.0;
          y.set(r * n_out + first + c, sums[c] + bias);
        }
      }
    }
  });
}

}  // namespace dif::reference
