#include "backends/cuda/kernels.h"
#include "backends/cuda/matmul.h"
#include "backends/cuda/tile_text.h"

namespace dif::cuda {

namespace {

struct Sizes {
  std::int64_t rows = 1, columns = 0, depth = 0;
};

Sizes sizes(const ir::OpView& op) {
  Sizes result = {1, op.in(1).dim(0), op.in(1).dim(1)};
  for (int axis = 0; axis + 1 < op.in(0).rank(); ++axis) result.rows *= op.in(0).dim(axis);
  return result;
}

class MatmulLinear final : public runtime::Kernel {
 public:
  MatmulLinear(Matmul matmul, bool biased) : matmul_(std::move(matmul)), biased_(biased) {}

  Status run(const runtime::KernelArgs& args) override {
    return matmul_.run(args.in[0].buffer, args.in[1].buffer, args.out[0].buffer,
                       biased_ ? args.in[2].buffer : runtime::BufferView(), args.workspace);
  }
  std::uint64_t workspace_bytes() const override { return matmul_.workspace_bytes(); }

 private:
  Matmul matmul_;
  bool biased_;
};

constexpr const char* kText = R"(
extern "C" __global__ void __launch_bounds__(256)
multiply(const @T@* x, const @T@* w, const @T@* bias, @T@* y, const Index M, const Index N, const Index K, int biased) {
  const auto a_at = [&](Index m, Index k) { return decode(x[m * K + k]); };
  const auto b_at = [&](Index n, Index k) { return decode(w[n * K + k]); };
  const auto put = [&](Index m, Index n, float sum) {
    y[m * N + n] = encode<@T@>(biased ? sum + decode(bias[n]) : sum);
  };
@tile@}
)";

class TiledLinear final : public runtime::Kernel {
 public:
  TiledLinear(CudaKernel kernel, const ir::OpView& op)
      : kernel_(kernel), sizes_(sizes(op)), biased_(op.has(2)) {}

  Status run(const runtime::KernelArgs& args) override {
    return kernel_.launch(
        {ceil_div(sizes_.columns, kTileSize), ceil_div(sizes_.rows, kTileSize)},
        {args.in[0].buffer, args.in[1].buffer, args.in[biased_ ? 2 : 0].buffer, args.out[0].buffer,
         sizes_.rows, sizes_.columns, sizes_.depth, std::int32_t{biased_}});
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
  const Sizes s = sizes(op);
  const DType dtype = op.in(0).dtype;
  // Where rows are not aligned, cuBLASLt rounds bf16 sums before it adds the bias.
  const auto element = static_cast<std::int64_t>(dtype_size(dtype));
  if (dtype != DType::kF32 && op.has(2) && (s.depth * element % 16 != 0 || s.columns * element % 16 != 0))
    return runtime::declined("a bias, and rows of {} and {} elements are no multiples of 16 bytes", s.depth,
                             s.columns);
  DIF_ASSIGN(Matmul matmul, Matmul::create(device_of(request.device), {.x = dtype,
                                                                       .y = dtype,
                                                                       .rows = s.rows,
                                                                       .columns = s.columns,
                                                                       .depth = s.depth,
                                                                       .x_row = s.depth,
                                                                       .w_row = s.depth,
                                                                       .y_row = s.columns,
                                                                       .biased = op.has(2)}));
  return std::make_unique<MatmulLinear>(std::move(matmul), op.has(2));
}

MakeResult make_tiled_linear(const KernelRequest& request) {
  const ir::OpView& op = *request.op;
  DIF_TRY(computable(op));
  if (ceil_div(sizes(op).rows, kTileSize) > 65535)
    return runtime::declined("{} rows are more than one launch takes", sizes(op).rows);
  DIF_ASSIGN(const CudaKernel kernel,
             device_of(request.device)
                 .kernel(prelude() + fill(kText, {{"T", type_name(op.in(0).dtype)}, {"tile", tile_text()}}),
                         "multiply", kTileThreads));
  return std::make_unique<TiledLinear>(kernel, op);
}

}  // namespace dif::cuda
