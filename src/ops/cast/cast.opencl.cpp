#include "backends/opencl/pointwise.h"

namespace dif::opencl {

const ElementOperation kCast = {[](const ir::OpView& op, const ElementNames& names) {
  const bool from_integer = op.in(0).dtype == DType::kI32, to_integer = op.out().dtype == DType::kI32;
  if (from_integer == to_integer) return names.x[0];
  if (from_integer) return fmt::format("convert_float16_rte({})", names.x[0]);
  // Saturates by hand: what a conversion does beyond the integers is the device's affair.
  return fmt::format(
      "select(select(select(convert_int16_rtz(fmin(fmax({0}, -0x1p31f), 0x1.fffffep30f)), "
      "(int16)(0x7fffffff), {0} >= 0x1p31f), (int16)(-0x7fffffff - 1), {0} <= -0x1p31f), (int16)(0), "
      "isnan({0}))",
      names.x[0]);
}};

}  // namespace dif::opencl
