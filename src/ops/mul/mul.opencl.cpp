#include "backends/opencl/pointwise.h"

namespace dif::opencl {

const ElementOperation kMul = {[](const ir::OpView& op, const ElementNames& names) {
  // Unsigned numbers wrap around.
  return op.out().dtype == DType::kI32
             ? fmt::format("as_int16(as_uint16({}) * as_uint16({}))", names.x[0], names.x[1])
             : fmt::format("{} * {}", names.x[0], names.x[1]);
}};

}  // namespace dif::opencl
