#include "backends/cpu/row_norm.h"

#include <algorithm>

#include "backends/cpu/parallel.h"

namespace dif::cpu {

MakeResult make_row_norm(const KernelRequest& request, NormFunction function) {
  class RowNorm final : public runtime::Kernel {
   public:
    RowNorm(const ir::OpView& op, NormFunction function)
        : dtype_(op.in(0).dtype),
          eps_(op.f32("eps")),
          columns_(op.in(0).dim(-1)),
          rows_(op.in(0).numel() / columns_),
          function_(function) {}

    Status run(const runtime::KernelArgs& args) override {
      NormBlock all = {dtype_, args.in[0].data<void>()};
      if (args.in.size() > 1) all.w = args.in[1].data<void>();
      if (args.in.size() > 2) all.bias = args.in[2].data<void>();
      all.y = args.out[0].data<void>();
      all.eps = eps_;
      all.columns = columns_;
      const std::int64_t rows = std::max<std::int64_t>(1, kBlockElements / columns_);
      for_blocks(ceil_div(rows_, rows), [&](std::int64_t index) {
        NormBlock block = all;
        block.row = index * rows;
        block.n_rows = std::min(rows, rows_ - block.row);
        function_(block);
      });
      return ok();
    }

   private:
    const DType dtype_;
    const float eps_;
    const std::int64_t columns_, rows_;
    const NormFunction function_;
  };
  return std::make_unique<RowNorm>(*request.op, function);
}

}  // namespace dif::cpu
