#include "backends/reference/kernels.h"
#include "ops/common/elements.ref.h"

namespace dif::reference {

Status rotary(const ir::OpView& op, const runtime::KernelArgs& args) {
  const Shape& shape = op.in(0).shape;
  const std::int64_t n_positions = shape.dim(1), n_heads = shape.dim(2), width = shape.dim(3);
  const std::int64_t half = op.in(1).dim(1);
  const bool interleaved = op.flag("interleaved");
  return for_float(op.out().dtype, [&]<DType dtype>() {
    const Elements<dtype> x(args.in[0]), y(args.out[0]);
    const Elements<DType::kF32> cos(args.in[1]), sin(args.in[2]);
    for (std::int64_t row = 0; row < shape.dim(0) * n_positions * n_heads; ++row) {
      const std::int64_t position = row / n_heads % n_positions, first = row * width;
      for (std::int64_t i = 0; i < half; ++i) {
        const std::int64_t at_a = first + (interleaved ? 2 * i : i);
        const std::int64_t at_b = first + (interleaved ? 2 * i + 1 : i + half);
        const float a = x[at_a], b = x[at_b], c = cos[position * half + i], s = sin[position * half + i];
        y.set(at_a, a * c - b * s);
        y.set(at_b, b * c + a * s);
      }
      for (std::int64_t i = 2 * half; i < width; ++i) y.set(first + i, x[first + i]);
    }
  });
}

}  // namespace dif::reference
