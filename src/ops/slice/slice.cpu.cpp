#include <algorithm>

#include "backends/cpu/kernels.h"
#include "backends/cpu/row_operation.h"
#include "backends/cpu/strided_copy.h"

namespace dif::cpu {

MakeResult make_slice(const KernelRequest& request) {
  /// A slice of one axis is one run of bytes per index of the axes before it.
  class Slice final : public runtime::Kernel {
   public:
    explicit Slice(const ir::OpView& op) {
      const ir::TensorType& x = op.in(0);
      const int axis = static_cast<int>(op.i64("axis"));
      std::int64_t inner = static_cast<std::int64_t>(dtype_size(x.dtype));
      for (int i = axis + 1; i < x.rank(); ++i) inner *= x.dim(i);
      for (int i = 0; i < axis; ++i) rows_ *= x.dim(i);
      step_ = x.dim(axis) * inner;
      first_ = op.i64("start") * inner;
      bytes_ = (op.i64("end") - op.i64("start")) * inner;
    }

    Status run(const runtime::KernelArgs& args) override {
      copy_rows(args.in[0].data<std::byte>() + first_, step_, args.out[0].data<std::byte>(), bytes_, rows_,
                bytes_);
      return ok();
    }

   private:
    std::int64_t rows_ = 1, step_ = 0, first_ = 0, bytes_ = 0;
  };
  return std::make_unique<Slice>(*request.op);
}

RowFunction rows_of_slice() {
  return [](const RowBlock& block) {
    const RowOperation& slice = *block.operation;
    const auto size = static_cast<std::int64_t>(dtype_size(slice.dtype));
    const std::int64_t bytes = slice.columns * size;
    const std::byte* x = block.in[0].as<std::byte>() + slice.first_column * size;
    std::byte* const y = block.out_as<std::byte>();
    for (std::int64_t i = 0; i < block.n * size; i += bytes, x += block.in[0].columns * size)
      std::copy_n(x, bytes, y + i);
  };
}

}  // namespace dif::cpu
