#include <numeric>

#include "backends/cuda/kernels.h"
#include "backends/cuda/strided_copy.h"
#include "ops/concat/concat.op.h"
#include "runtime/axes.h"

namespace dif::cuda {

MakeResult make_concat(const KernelRequest& request) {
  const ir::OpView& op = *request.op;
  const std::vector<std::int64_t> of_y = runtime::dense_strides(op.out().shape);
  const auto axis = static_cast<std::size_t>(op.i64("axis"));
  std::vector<CopyPiece> pieces;
  std::int64_t first = 0;
  for (std::size_t i = 0; i < op.n_ins(); ++i) {
    const Shape& x = op.in(i).shape;
    pieces.push_back({i, x, 0, first * of_y[axis], runtime::dense_strides(x), of_y});
    first += x.dim(static_cast<int>(axis));
  }
  return make_strided_copy(request, pieces);
}

static std::string emit_concat(RowText& text, const RowStep& step, const std::string& p) {
  const std::int64_t width = step.op->out().dim(-1);
  const std::string y = text.declare(step), row = text.fresh("r"), column = text.fresh("c");
  text.line(fmt::format("const int {} = (int)(({}) / {}), {} = (int)(({}) % {});", row, p, width, column, p,
                        width));
  std::int64_t first = 0;
  for (std::size_t i = 0; i < step.op->n_ins(); ++i) {
    const std::int64_t own = step.op->in(i).dim(-1);
    if (own == 0) continue;
    text.open(fmt::format("if ({0} >= {1} && {0} < {2})", column, first, first + own));
    const std::string x = text.pull(step, i, fmt::format("({} * {} + {} - {})", row, own, column, first));
    text.line(
        fmt::format("#pragma unroll\nfor (int k = 0; k < {}; ++k) {}[k] = {}[k];", text.vector(), y, x));
    text.close();
    first += own;
  }
  return y;
}

const RowOperation kConcatRows = {&ops::kConcat, emit_concat, [](const ir::OpView& op) {
                                    std::int64_t together = 0;
                                    for (std::size_t i = 0; i < op.n_ins(); ++i)
                                      together = std::gcd(together, op.in(i).dim(-1));
                                    return together;
                                  }};

}  // namespace dif::cuda
