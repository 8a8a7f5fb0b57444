#include <cmath>
#include <limits>

#include "backends/reference/kernels.h"
#include "ops/common/elements.ref.h"

namespace dif::reference {

namespace {

std::int32_t to_i32(float value) {
  using Limits = std::numeric_limits<std::int32_t>;
  if (std::isnan(value)) return 0;
  if (value >= 2147483648.0f) return Limits::max();
  if (value <= -2147483648.0f) return Limits::min();
  return static_cast<std::int32_t>(value);
}

}  // namespace

Status cast(const ir::OpView& op, const runtime::KernelArgs& args) {
  const DType from = op.in(0).dtype, to = op.out().dtype;
  const std::int64_t count = op.out().numel();
  const std::byte* in = args.in[0].buffer.pointer();
  std::byte* out = args.out[0].buffer.pointer();
  if (from == to) {
    if (count != 0) std::memcpy(out, in, op.out().bytes());
    return ok();
  }
  if (from == DType::kI32)
    return for_float(to, [&]<DType dtype>() {
      const Elements<dtype> y(args.out[0]);
      for (std::int64_t i = 0; i < count; ++i) y.set(i, static_cast<float>(load<std::int32_t>(in, i)));
    });
  return for_float(from, [&]<DType dtype>() {
    const Elements<dtype> x(args.in[0]);
    if (to == DType::kI32) {
      for (std::int64_t i = 0; i < count; ++i) store(out, i, to_i32(x[i]));
      return;
    }
    (void)for_float(to, [&]<DType to_dtype>() {
      const Elements<to_dtype> y(args.out[0]);
      for (std::int64_t i = 0; i < count; ++i) y.set(i, x[i]);
    });
  });
}

}  // namespace dif::reference
