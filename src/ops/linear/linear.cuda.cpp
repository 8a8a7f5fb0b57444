#include <utility>

#include "backends/cuda/kernels.h"
#include "backends/cuda/matmul.h"
#include "backends/cuda/row_steps.h"
#include "backends/cuda/tile_text.h"

namespace dif::cuda {

namespace {

/// Batches of rows: one where rows follow each other evenly on both sides.
struct Sizes {
  std::int64_t batches = 1, rows = 1, columns = 0, depth = 0;
  RowSteps x, y;
};

Sizes sizes(const KernelRequest& request) {
  const ir::OpView& op = *request.op;
  Sizes s = {1, 1, op.in(1).dim(0), op.in(1).dim(1), {}, {}};
  if (op.in(0).rank() > 1) s.rows = op.in(0).dim(-2);
  for (int axis = 0; axis + 2 < op.in(0).rank(); ++axis) s.batches *= op.in(0).dim(axis);
  s.x = row_steps(request.in_pitch(0), s.rows, s.depth);
  s.y = row_steps(request.out_pitch(), s.rows, s.columns);
  if (s.x.batch == s.rows * s.x.row && s.y.batch == s.rows * s.y.row) s.rows *= std::exchange(s.batches, 1);
  return s;
}

class MatmulLinear final : public runtime::Kernel {
 public:
  MatmulLinear(Matmul matmul, bool biased) : matmul_(std::move(matmul)), biased_(biased) {}

  Status run(const runtime::KernelArgs& args) override {
    return matmul_.run(args.in[0].buffer, args.in[1].buffer, args.out[0].buffer,
                       biased_ ? args.in[2].buffer : runtime::BufferView(), args.workspace);
  }
  std::uint64_t workspace_bytes() const override { return matmul_.workspace_bytes(); }
  std::string choice() const override { return matmul_.choice(); }

 private:
  Matmul matmul_;
  bool biased_;
};

constexpr const char* kText = R"(
extern "C" __global__ void __launch_bounds__(256)
multiply(const @T@* x, const @T@* w, const @T@* bias, @T@* y, const Index M, const Index N, const Index K, int biased,
         Index x_row, Index x_batch, Index y_row, Index y_batch) {
  x += blockIdx.z * x_batch;
  y += blockIdx.z * y_batch;
  const auto a_at = [&](Index m, Index k) { return decode(x[m * x_row + k]); };
  const auto b_at = [&](Index n, Index k) { return decode(w[n * K + k]); };
  const auto put = [&](Index m, Index n, float sum) {
    y[m * y_row + n] = encode<@T@>(biased ? sum + decode(bias[n]) : sum);
  };
@tile@}
)";

class TiledLinear final : public runtime::Kernel {
 public:
  TiledLinear(CudaKernel kernel, const KernelRequest& request)
      : kernel_(kernel), sizes_(sizes(request)), biased_(request.op->has(2)) {}

  Status run(const runtime::KernelArgs& args) override {
    return kernel_.launch(
        {ceil_div(sizes_.columns, kTileSize), ceil_div(sizes_.rows, kTileSize), sizes_.batches},
        {args.in[0].buffer, args.in[1].buffer, args.in[biased_ ? 2 : 0].buffer, args.out[0].buffer,
         sizes_.rows, sizes_.columns, sizes_.depth, std::int32_t{biased_}, sizes_.x.row, sizes_.x.batch,
         sizes_.y.row, sizes_.y.batch});
  }

 private:
  CudaKernel kernel_;
  const Sizes sizes_;
  const bool biased_;
};

}  // namespace

MakeResult make_matmul_linear(const KernelRequest& request) {
  const ir::OpView& op = *request.op;
  DIF_TRY(computable(op));
  const Sizes s = sizes(request);
  const DType dtype = op.in(0).dtype;
  // Where rows are not aligned, cuBLASLt rounds bf16 sums before it adds the bias.
  const auto element = static_cast<std::int64_t>(dtype_size(dtype));
  if (dtype != DType::kF32 && op.has(2) && (s.depth * element % 16 != 0 || s.columns * element % 16 != 0))
    return runtime::declined("a bias, and rows of {} and {} elements are no multiples of 16 bytes", s.depth,
                             s.columns);
  runtime::KernelChoices* const choices = device_of(request.device).choices();
  MatmulWish wish;
  if (choices != nullptr && !request.plan_only) wish = {choices->more_algorithms, choices->linear};
  DIF_ASSIGN(Matmul matmul, Matmul::create(device_of(request.device),
                                           {.x = dtype,
                                            .y = dtype,
                                            .rows = s.rows,
                                            .columns = s.columns,
                                            .depth = s.depth,
                                            .batches = s.batches,
                                            .x_row = s.x.row,
                                            .w_row = s.depth,
                                            .y_row = s.y.row,
                                            .x_batch = s.x.batch,
                                            .y_batch = s.y.batch,
                                            .biased = op.has(2),
                                            .measured = !request.plan_only},
                                           wish));
  if (choices != nullptr) choices->heeded = true;
  return std::make_unique<MatmulLinear>(std::move(matmul), op.has(2));
}

MakeResult make_tiled_linear(const KernelRequest& request) {
  const ir::OpView& op = *request.op;
  DIF_TRY(computable(op));
  const Sizes s = sizes(request);
  if (ceil_div(s.rows, kTileSize) > 65535 || s.batches > 65535)
    return runtime::declined("{} batches of {} rows are more than one launch takes", s.batches, s.rows);
  DIF_ASSIGN(const CudaKernel kernel,
             device_of(request.device)
                 .kernel(prelude() + fill(kText, {{"T", type_name(op.in(0).dtype)}, {"tile", tile_text()}}),
                         "multiply", kTileThreads));
  return std::make_unique<TiledLinear>(kernel, request);
}

}  // namespace dif::cuda
