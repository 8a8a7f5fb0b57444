#include <algorithm>
#include <cstring>

#include "backends/cpu/kernels.h"
#include "backends/cpu/parallel.h"

namespace dif::cpu {

MakeResult make_gather_rows(const KernelRequest& request) {
  class GatherRows final : public runtime::Kernel {
   public:
    explicit GatherRows(const ir::OpView& op)
        : table_rows_(op.in(0).dim(0)),
          n_(op.in(1).numel()),
          bytes_(n_ == 0 ? 0 : static_cast<std::int64_t>(op.out().bytes()) / n_) {}

    Status run(const runtime::KernelArgs& args) override {
      const std::byte* const table = args.in[0].data<std::byte>();
      const std::int32_t* const ids = args.in[1].data<std::int32_t>();
      std::byte* const y = args.out[0].data<std::byte>();
      for (std::int64_t i = 0; i < n_; ++i)
        if (ids[i] < 0 || ids[i] >= table_rows_)
          return invalid_input("gather_rows: id {} at position {} is outside 0 .. {}", ids[i], i,
                               table_rows_ - 1);
      if (bytes_ == 0) return ok();
      const std::int64_t rows = std::max<std::int64_t>(1, kBlockElements / bytes_);
      for_blocks(ceil_div(n_, rows), [&](std::int64_t block) {
        for (std::int64_t i = block * rows, end = std::min(i + rows, n_); i < end; ++i)
          std::memcpy(y + i * bytes_, table + ids[i] * bytes_, static_cast<std::size_t>(bytes_));
      });
      return ok();
    }

   private:
    const std::int64_t table_rows_, n_, bytes_;
  };
  return std::make_unique<GatherRows>(*request.op);
}

}  // namespace dif::cpu
