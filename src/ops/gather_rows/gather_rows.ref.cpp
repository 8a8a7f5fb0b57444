#include <cstring>

#include "backends/reference/kernels.h"
#include "ops/common/elements.ref.h"

namespace dif::reference {

Status gather_rows(const ir::OpView& op, const runtime::KernelArgs& args) {
  const ir::TensorType &table = op.in(0), &ids = op.in(1);
  const std::int64_t rows = table.dim(0), count = ids.numel();
  const std::int64_t row =
      product(table.shape, 1, table.rank()) * static_cast<std::int64_t>(dtype_size(table.dtype));  // bytes
  for (std::int64_t i = 0; i < count; ++i) {
    const auto id = load<std::int32_t>(args.in[1].buffer.pointer(), i);
    if (id < 0 || id >= rows)
      return invalid_input("gather_rows: id {} at position {} is outside 0 .. {}", id, i, rows - 1);
    if (row != 0)
      std::memcpy(args.out[0].buffer.pointer() + i * row, args.in[0].buffer.pointer() + id * row,
                  static_cast<std::size_t>(row));
  }
  return ok();
}

}  // namespace dif::reference
