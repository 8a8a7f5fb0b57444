#include "backends/cpu/broadcast.h"

#include <algorithm>

#include "backends/cpu/parallel.h"
#include "backends/cpu/storage.h"
#include "backends/cpu/stream_out.h"
#include "backends/cpu/traffic.h"
#include "ops/common/checks.h"

namespace dif::cpu {

namespace {

struct Axis {
  std::int64_t size, x, y;  ///< elements and strides
};

/// The axes of z that are not 1 wide, innermost first, with neighbours merged where both operands allow it.
std::vector<Axis> merged_axes(const Shape& x, const Shape& y, const Shape& z) {
  std::vector<Axis> axes;
  std::int64_t x_size = 1, y_size = 1;
  for (int i = 1; i <= z.rank(); ++i) {
    const std::int64_t size = z.dim(-i);
    const std::int64_t nx = i <= x.rank() ? x.dim(-i) : 1, ny = i <= y.rank() ? y.dim(-i) : 1;
    const Axis axis = {size, nx == 1 ? 0 : x_size, ny == 1 ? 0 : y_size};
    x_size *= nx;
    y_size *= ny;
    if (size == 1) continue;
    if (!axes.empty()) {
      Axis& inner = axes.back();
      const bool x_goes_on = axis.x == inner.x * inner.size, y_goes_on = axis.y == inner.y * inner.size;
      if (x_goes_on && y_goes_on) {
        inner.size *= size;
        continue;
      }
    }
    axes.push_back(axis);
  }
  return axes;
}

class Broadcast final : public runtime::Kernel {
 public:
  Broadcast(const ir::OpView& op, BroadcastFunction function)
      : plan_(plan_broadcast(op.in(0).shape, op.in(1).shape, op.out().shape)),
        dtype_(op.out().dtype),
        past_caches_(static_cast<std::int64_t>(op.out().bytes()) > kPastCachesBytes),
        function_(function) {}

  Status run(const runtime::KernelArgs& args) override {
    const void *const x = args.in[0].data<void>(), *const y = args.in[1].data<void>();
    void* const z = args.out[0].data<void>();
    const std::int64_t rows =
        std::max<std::int64_t>(1, kBlockElements / std::max<std::int64_t>(1, plan_.inner));
    const std::int64_t columns = rows == 1 ? kBlockElements : plan_.inner;
    const std::int64_t n_columns = ceil_div(plan_.inner, columns);
    for_blocks(ceil_div(plan_.rows, rows) * n_columns, [&](std::int64_t block) {
      const std::int64_t row = block / n_columns * rows, first = block % n_columns * columns;
      function_({&plan_, dtype_, x, y, z, row, std::min(rows, plan_.rows - row), first,
                 std::min(columns, plan_.inner - first), past_caches_});
      if (past_caches_) finish_stream();
    });
    return ok();
  }

 private:
  const BroadcastPlan plan_;
  const DType dtype_;
  const bool past_caches_;
  const BroadcastFunction function_;
};

}  // namespace

BroadcastPlan plan_broadcast(const Shape& x, const Shape& y, const Shape& z) {
  BroadcastPlan plan;
  std::vector<Axis> axes = merged_axes(x, y, z);
  if (axes.empty()) return plan;
  plan.inner = axes[0].size;
  plan.x_step = axes[0].x == 0 ? 0 : 1;
  plan.y_step = axes[0].y == 0 ? 0 : 1;
  for (std::size_t i = axes.size(); i-- > 1;) {
    plan.rows *= axes[i].size;
    plan.dims.push_back(axes[i].size);
    plan.x_strides.push_back(axes[i].x);
    plan.y_strides.push_back(axes[i].y);
  }
  return plan;
}

RowCounter::RowCounter(const BroadcastPlan& plan, std::int64_t row) : plan_(plan) {
  for (std::size_t i = plan.dims.size(); i-- > 0;) {
    index_[i] = row % plan.dims[i];
    row /= plan.dims[i];
    x_ += index_[i] * plan.x_strides[i];
    y_ += index_[i] * plan.y_strides[i];
  }
}

void RowCounter::next() {
  for (std::size_t i = plan_.dims.size(); i-- > 0;) {
    const bool wraps = ++index_[i] == plan_.dims[i];
    x_ += wraps ? -(plan_.dims[i] - 1) * plan_.x_strides[i] : plan_.x_strides[i];
    y_ += wraps ? -(plan_.dims[i] - 1) * plan_.y_strides[i] : plan_.y_strides[i];
    if (!wraps) return;
    index_[i] = 0;
  }
}

MakeResult make_broadcast(const KernelRequest& request, BroadcastFunction function) {
  const ir::OpView& op = *request.op;
  if (!ops::is_float(op.out().dtype))
    return runtime::declined("vectors of {} are not written", op.out().dtype);
  if (op.out().numel() == 0) return runtime::declined("there is no result to compute");
  return std::make_unique<Broadcast>(op, function);
}

}  // namespace dif::cpu
