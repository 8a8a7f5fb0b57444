#include "backends/cuda/kernels.h"
#include "ops/cast/cast.op.h"

namespace dif::cuda {

static std::string cast_element(const ir::OpView& op, std::span<const std::string> x) {
  const bool from_integer = op.in(0).dtype == DType::kI32, to_integer = op.out().dtype == DType::kI32;
  if (from_integer == to_integer) return x[0];
  if (from_integer) return fmt::format("__int2float_rn({})", x[0]);
  return fmt::format("__float2int_rz({})", x[0]);  // saturates; NaN becomes 0
}

const RowOperation kCastRows = {&ops::kCast, emit_element<cast_element>};

}  // namespace dif::cuda
