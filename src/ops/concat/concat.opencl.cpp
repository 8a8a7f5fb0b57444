#include "backends/opencl/strided_copy.h"
#include "runtime/axes.h"

namespace dif::opencl {

MakeResult make_concat(const KernelRequest& request) {
  const ir::OpView& op = *request.op;
  const std::vector<std::int64_t> of_y = dense_strides(op.out().shape);
  const auto axis = static_cast<std::size_t>(op.i64("axis"));
  std::vector<CopyPiece> pieces;
  std::int64_t before = 0;
  for (std::size_t i = 0; i < op.n_ins(); ++i) {
    const Shape& x = op.in(i).shape;
    pieces.push_back({i, x, 0, before * of_y[axis], dense_strides(x), of_y});
    before += x.dim(static_cast<int>(axis));
  }
  return make_strided_copy(request, pieces);
}

}  // namespace dif::opencl
