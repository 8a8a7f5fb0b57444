#include <algorithm>
#include <limits>

#include "backends/cuda/kernels.h"

namespace dif::cuda {

namespace {

constexpr int kThreads = 256;

constexpr const char* kText = R"(
extern "C" __global__ void __launch_bounds__(256)
gather(const @type@* table, const int* ids, @type@* y, unsigned long long* outside, Index width, Index count,
       int rows) {
  const Index i = (Index)blockIdx.x * 256 + threadIdx.x;
  const Index units = width == 0 ? 1 : width;  // ids of empty rows are looked at too
  if (i >= units * count) return;
  const Index place = i / units;
  int id = ids[place];
  if (id < 0 || id >= rows) {
    if (place <= 0x7fffffff) atomicMin(outside, (unsigned long long)place << 32 | (unsigned)id);
    id = 0;
  }
  if (rows != 0 && width != 0) y[i] = table[id * width + i % width];
}
)";

/// Rows are copied in the largest units that divide them. An id outside the table is noted in a word that the
/// host reads after the run; its row is row 0 until then.
class GatherRows final : public runtime::Kernel {
 public:
  GatherRows(CudaKernel kernel, ReportWord outside, const ir::OpView& op, std::int64_t width)
      : kernel_(kernel),
        outside_(std::move(outside)),
        rows_(op.in(0).dim(0)),
        count_(op.in(1).numel()),
        width_(width) {}

  Status run(const runtime::KernelArgs& args) override {
    return kernel_.launch({ceil_div(std::max<std::int64_t>(width_, 1) * count_, kThreads)},
                          {args.in[0].buffer, args.in[1].buffer, args.out[0].buffer, outside_.view(), width_,
                           count_, static_cast<std::int32_t>(rows_)});
  }

  Status finish() override {
    const std::uint64_t found = outside_.take();
    if (found == ReportWord::kNothing) return ok();
    return invalid_input("gather_rows: id {} at position {} is outside 0 .. {}",
                         static_cast<std::int32_t>(found), found >> 32, rows_ - 1);
  }

 private:
  CudaKernel kernel_;
  ReportWord outside_;
  const std::int64_t rows_, count_, width_;
};

}  // namespace

MakeResult make_gather_rows(const KernelRequest& request) {
  const ir::OpView& op = *request.op;
  if (op.in(0).dim(0) > std::numeric_limits<std::int32_t>::max())
    return runtime::declined("ids of 32 bits do not count {} rows", op.in(0).dim(0));
  const std::int64_t row_bytes =
      op.in(0).dim(0) == 0 ? 0 : static_cast<std::int64_t>(op.in(0).bytes()) / op.in(0).dim(0);
  std::int64_t unit = 16;
  while (row_bytes % unit != 0) unit /= 2;
  CudaDevice& device = device_of(request.device);
  DIF_ASSIGN(ReportWord outside, device.report_word());
  DIF_ASSIGN(const CudaKernel kernel,
             device.kernel(prelude() + fill(kText, {{"type", bits_type(unit)}}), "gather", kThreads));
  return std::make_unique<GatherRows>(kernel, std::move(outside), op, row_bytes / unit);
}

}  // namespace dif::cuda
