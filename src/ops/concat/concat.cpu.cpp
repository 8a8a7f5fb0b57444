#include <algorithm>
#include <vector>

#include "backends/cpu/kernels.h"
#include "backends/cpu/row_operation.h"
#include "backends/cpu/strided_copy.h"

namespace dif::cpu {

MakeResult make_concat(const KernelRequest& request) {
  /// Each operand is one run of bytes per index of the axes before the joined one.
  class Concat final : public runtime::Kernel {
   public:
    explicit Concat(const ir::OpView& op) {
      const int axis = static_cast<int>(op.i64("axis"));
      for (int i = 0; i < axis; ++i) rows_ *= op.out().dim(i);
      for (std::size_t operand = 0; operand < op.n_ins(); ++operand) {
        const ir::TensorType& x = op.in(operand);
        std::int64_t bytes = static_cast<std::int64_t>(dtype_size(x.dtype));
        for (int i = axis; i < x.rank(); ++i) bytes *= x.dim(i);
        bytes_.push_back(bytes);
        step_ += bytes;
      }
    }

    Status run(const runtime::KernelArgs& args) override {
      std::byte* y = args.out[0].data<std::byte>();
      for (std::size_t operand = 0; operand < bytes_.size(); ++operand) {
        copy_rows(args.in[operand].data<std::byte>(), bytes_[operand], y, step_, rows_, bytes_[operand]);
        y += bytes_[operand];
      }
      return ok();
    }

   private:
    std::vector<std::int64_t> bytes_;
    std::int64_t rows_ = 1, step_ = 0;
  };
  return std::make_unique<Concat>(*request.op);
}

RowFunction rows_of_concat() {
  return [](const RowBlock& block) {
    const auto size = static_cast<std::int64_t>(dtype_size(block.operation->dtype));
    const std::int64_t step = block.operation->columns * size;
    std::byte* y = block.out_as<std::byte>();
    for (const RowOperand& operand : block.in) {
      const std::int64_t bytes = operand.columns * size;
      const std::byte* x = operand.as<std::byte>();
      for (std::int64_t i = 0; i < block.n * size; i += step, x += bytes) std::copy_n(x, bytes, y + i);
      y += bytes;
    }
  };
}

}  // namespace dif::cpu
