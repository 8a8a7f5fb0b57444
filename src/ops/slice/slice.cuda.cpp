#include <numeric>

#include "backends/cuda/kernels.h"
#include "backends/cuda/strided_copy.h"
#include "ops/slice/slice.op.h"
#include "runtime/axes.h"

namespace dif::cuda {

MakeResult make_slice(const KernelRequest& request) {
  const ir::OpView& op = *request.op;
  const std::vector<std::int64_t> of_x = runtime::dense_strides(op.in(0).shape);
  const std::int64_t first = op.i64("start") * of_x[static_cast<std::size_t>(op.i64("axis"))];
  return make_strided_copy(request,
                           {{0, op.out().shape, first, 0, of_x, runtime::dense_strides(op.out().shape)}});
}

static std::string emit_slice(RowText& text, const RowStep& step, const std::string& p) {
  const std::int64_t from = step.op->in(0).dim(-1), to = step.op->out().dim(-1);
  return text.pull(
      step, 0, fmt::format("(({0}) / {1} * {2} + {3} + ({0}) % {1})", p, to, from, step.op->i64("start")));
}

const RowOperation kSliceRows = {&ops::kSlice, emit_slice, [](const ir::OpView& op) {
                                   return std::gcd(std::gcd(op.in(0).dim(-1), op.out().dim(-1)),
                                                   op.i64("start"));
                                 }};

}  // namespace dif::cuda
