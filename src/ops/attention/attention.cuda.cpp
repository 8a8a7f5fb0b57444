#include <algorithm>

#include "backends/cuda/attention_choice.h"
#include "backends/cuda/dnn_plans.h"
#include "backends/cuda/kernels.h"
#include "backends/cuda/matmul.h"
#include "backends/cuda/row_steps.h"
#include "base/checked_math.h"

namespace dif::cuda {

namespace {

struct Sizes {
  std::int64_t batches, queries, heads, width, keys, key_heads, value_width;
  RowSteps q, k, v, y;  ///< a row is a position with all its heads
};

Sizes sizes(const KernelRequest& request) {
  const ir::OpView& op = *request.op;
  const Shape &q = op.in(0).shape, &k = op.in(1).shape, &v = op.in(2).shape;
  return {q.dim(0),
          q.dim(1),
          q.dim(2),
          q.dim(3),
          k.dim(1),
          k.dim(2),
          v.dim(3),
          row_steps(request.in_pitch(0), q.dim(1), q.dim(2) * q.dim(3)),
          row_steps(request.in_pitch(1), k.dim(1), k.dim(2) * k.dim(3)),
          row_steps(request.in_pitch(2), v.dim(1), v.dim(2) * v.dim(3)),
          row_steps(request.out_pitch(), q.dim(1), q.dim(2) * v.dim(3))};
}

std::int32_t integer(std::int64_t n) {
  return static_cast<std::int32_t>(n);
}

// --- cuDNN -----------------------------------------------------------------------------------------------

constexpr int kMaskThreads = 256;
/// Where queries without keys are looked for, how many blocks share them.
constexpr std::int64_t kClearBlocks = 64;

/// hide: what is added to the scores of a key, 0 or so little that nothing remains of its probability; also
/// for keys up to `step` that there are not. And the first key that is allowed. One block a batch.
/// clear: zeros for queries that see no key: to cuDNN all keys are alike to them. Rows are units of 16 bytes.
constexpr const char* kMask = R"(
extern "C" __global__ void __launch_bounds__(256)
hide(const unsigned char* mask, float* bias, int* first_allowed, int keys, int step) {
  __shared__ int first;
  mask += (Index)blockIdx.x * keys;
  bias += (Index)blockIdx.x * step;
  if (threadIdx.x == 0) first = keys;
  __syncthreads();
  int mine = keys;
  for (int k = threadIdx.x; k < step; k += 256) {
    const bool allowed = k < keys && mask[k];
    bias[k] = allowed ? 0.0f : -1e30f;
    if (allowed) mine = min(mine, k);
  }
  if (mine < keys) atomicMin(&first, mine);
  __syncthreads();
  if (threadIdx.x == 0) first_allowed[blockIdx.x] = first;
}
extern "C" __global__ void __launch_bounds__(256)
clear(uint4* y, const int* first_allowed, int queries, int keys, int units, int causal, Index y_row, Index y_batch) {
  const int first = first_allowed[blockIdx.y], unseen = first == keys ? queries : causal ? first : 0;
  y += blockIdx.y * y_batch;
  for (int q = blockIdx.x; q < unseen; q += gridDim.x)
    for (int i = threadIdx.x; i < units; i += 256) y[q * y_row + i] = make_uint4(0, 0, 0, 0);
}
)";

class DnnAttention final : public runtime::Kernel {
 public:
  explicit DnnAttention(const KernelRequest& request) : op_(*request.op), s_(sizes(request)) {}

  /// Floats between rows of what is added to scores: whole tiles of keys.
  static std::int64_t bias_row(const Sizes& s) { return ceil_div(s.keys, 256) * 256; }

  Status prepare(CudaDevice& device, std::shared_ptr<DnnGraph> graph) {
    graph_ = std::move(graph);
    if (!op_.has(3)) return ok();
    const std::string text = prelude() + kMask;
    DIF_ASSIGN(hide_, device.kernel(text, "hide", kMaskThreads));
    DIF_ASSIGN(clear_, device.kernel(text, "clear", kMaskThreads));
    return ok();
  }

  Status run(const runtime::KernelArgs& args) override {
    const runtime::BufferView q = args.in[0].buffer, k = args.in[1].buffer, v = args.in[2].buffer,
                              y = args.out[0].buffer;
    if (!op_.has(3)) return graph_->run(std::array{q, k, v, y}, args.workspace);
    runtime::BufferView bias = args.workspace, first_allowed = args.workspace;
    bias.offset += align_up(graph_->workspace_bytes(), kLine);
    first_allowed.offset = bias.offset + bias_bytes();
    DIF_TRY(hide_.launch({s_.batches},
                         {args.in[3].buffer, bias, first_allowed, integer(s_.keys), integer(bias_row(s_))}));
    DIF_TRY(graph_->run(std::array{q, k, v, y, bias}, args.workspace));
    return clear_.launch(
        {std::min(s_.queries, kClearBlocks), s_.batches},
        {y, first_allowed, integer(s_.queries), integer(s_.keys), integer(s_.heads * s_.value_width / kUnit),
         std::int32_t{op_.flag("causal")}, s_.y.row / kUnit, s_.y.batch / kUnit});
  }

  std::uint64_t workspace_bytes() const override {
    if (!op_.has(3)) return graph_->workspace_bytes();
    return align_up(graph_->workspace_bytes(), kLine) + bias_bytes() +
           static_cast<std::uint64_t>(s_.batches) * sizeof(std::int32_t);
  }
  std::string choice() const override { return reason_of(graph_->measured); }

 private:
  static constexpr std::uint64_t kLine = 256;
  static constexpr std::int64_t kUnit = 8;  ///< elements of 16 bytes

  std::uint64_t bias_bytes() const {
    return static_cast<std::uint64_t>(s_.batches * bias_row(s_)) * sizeof(float);
  }

  const ir::OpView& op_;
  const Sizes s_;
  std::shared_ptr<DnnGraph> graph_;
  CudaKernel hide_, clear_;
};

// --- matrix products -------------------------------------------------------------------------------------

/// Scores of this many bytes are in memory at once: 4096 queries of 16384 keys, so that the product of few
/// columns with the values has work for a whole GPU.
constexpr std::int64_t kScoreBytes = 256 << 20;
constexpr int kSoftmaxThreads = 256;
/// Rows up to this long stay in the registers of a block.
constexpr int kRegisterThreads = 512;
constexpr std::int64_t kMostInRegisters = 32 * kRegisterThreads;
/// Probabilities are rounded to the dtype of the values. Among many keys that averages out.
constexpr std::int64_t kFewKeys = 64;

/// One block for each row of scores [heads, rows, step]; probabilities take the place of the scores, or stand
/// in `y` in the dtype of the values.
constexpr const char* kSoftmax = R"(
extern "C" __global__ void __launch_bounds__(256)
softmax(float* scores, @T@* y, const unsigned char* mask, int keys, int step, int rows, int first_query, int masked,
        int causal) {
  __shared__ float scratch[32];
  const int row = blockIdx.x;
  const Index at = ((Index)blockIdx.y * rows + row) * step;
  float* const s = scores + at;
  const int seen = causal ? min(keys, first_query + row + 1) : keys;
  float most = -INFINITE;
  for (int k = threadIdx.x; k < seen; k += 256)
    if (!masked || mask[k]) most = fmaxf(most, s[k]);
  most = warp_max(most);
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = most;
  __syncthreads();
  for (int w = 0; w < 8; ++w) most = fmaxf(most, scratch[w]);
  float sum = 0;
  for (int k = threadIdx.x; k < keys; k += 256) {
    const float e = k < seen && (!masked || mask[k]) ? expf(s[k] - most) : 0.0f;
    s[k] = e;
    sum += e;
  }
  sum = block_sum(sum, scratch);
  const float factor = sum == 0.0f ? 0.0f : 1.0f / sum;
  for (int k = threadIdx.x; k < keys; k += 256) y[at + k] = encode<@T@>(s[k] * factor);
}
)";

/// The same with the row in registers, so that it is read once; 4 scores a thread at a time.
constexpr const char* kSoftmaxInRegisters = R"(
extern "C" __global__ void __launch_bounds__(512)
softmax(float* scores, @T@* y, const unsigned char* mask, int keys, int step, int rows, int first_query, int masked,
        int causal) {
  __shared__ float scratch[32];
  const int row = blockIdx.x;
  const Index at = ((Index)blockIdx.y * rows + row) * step;
  const int seen = causal ? min(keys, first_query + row + 1) : keys;
  float most = -INFINITE;
  alignas(16) float s[@parts@][4];
#pragma unroll
  for (int p = 0; p < @parts@; ++p) {
    const int first = (p * 512 + threadIdx.x) * 4;
    if (first < step) load<4>(scores + at + first, s[p]);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (first + j >= seen || (masked && !mask[first + j])) s[p][j] = -INFINITE;
      most = fmaxf(most, s[p][j]);
    }
  }
  most = warp_max(most);
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = most;
  __syncthreads();
  for (int w = 0; w < 16; ++w) most = fmaxf(most, scratch[w]);
  float sum = 0;
#pragma unroll
  for (int p = 0; p < @parts@; ++p)
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      s[p][j] = s[p][j] == -INFINITE ? 0.0f : expf(s[p][j] - most);
      sum += s[p][j];
    }
  sum = block_sum(sum, scratch);
  const float factor = sum == 0.0f ? 0.0f : 1.0f / sum;
#pragma unroll
  for (int p = 0; p < @parts@; ++p) {
    const int first = (p * 512 + threadIdx.x) * 4;
    alignas(16) @T@ v[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) v[j] = encode<@T@>(s[p][j] * factor);
    if (first < step) store<4>(y + at + first, v);
  }
}
)";

/// Scores of a block of queries, their softmax, and the values: for one key head with all its query heads, or
/// for all heads where each query head has a key head of its own.
class MatmulAttention final : public runtime::Kernel {
 public:
  explicit MatmulAttention(const KernelRequest& request)
      : op_(*request.op),
        s_(sizes(request)),
        dtype_(op_.in(0).dtype),
        element_(static_cast<std::int64_t>(dtype_size(dtype_))),
        shares_keys_(s_.heads != s_.key_heads),
        heads_at_once_(shares_keys_ ? s_.heads / s_.key_heads : s_.heads),
        step_(ceil_div(s_.keys, 8) * 8),
        block_(std::clamp<std::int64_t>(kScoreBytes / (4 * heads_at_once_ * step_), 1, s_.queries)) {}

  Status prepare(const KernelRequest& request) {
    CudaDevice& device = device_of(request.device);
    const bool in_registers = step_ <= kMostInRegisters;
    const std::string parts = fmt::format("{}", ceil_div(step_, 4 * kRegisterThreads));
    const std::string text = in_registers
                                 ? fill(kSoftmaxInRegisters, {{"T", type_name(dtype_)}, {"parts", parts}})
                                 : fill(kSoftmax, {{"T", type_name(dtype_)}});
    DIF_ASSIGN(softmax_,
               device.kernel(prelude() + text, "softmax", in_registers ? kRegisterThreads : kSoftmaxThreads));
    DIF_ASSIGN(whole_, products(device, block_));
    if (s_.queries % block_ != 0) {
      DIF_ASSIGN(rest_, products(device, s_.queries % block_));
    }
    return ok();
  }

  Status run(const runtime::KernelArgs& args) override {
    for (std::int64_t batch = 0; batch < s_.batches; ++batch)
      for (std::int64_t head = 0; head < s_.heads; head += heads_at_once_)
        for (std::int64_t query = 0; query < s_.queries; query += block_)
          DIF_TRY(run_block(args, batch, head, query));
    return ok();
  }

  std::uint64_t workspace_bytes() const override {
    return score_bytes() + probability_bytes() + kMatmulWorkspace;
  }

  std::string choice() const override {
    const std::string &scores = whole_.scores.choice(), &values = whole_.values.choice();
    if (scores.empty() && values.empty()) return {};
    return fmt::format("scores: {}; values: {}", scores.empty() ? "not measured" : scores,
                       values.empty() ? "not measured" : values);
  }

 private:
  struct Products {
    Matmul scores, values;
  };

  Result<Products> products(CudaDevice& device, std::int64_t rows) const {
    Products result;
    DIF_ASSIGN(result.scores, Matmul::create(device, {.x = dtype_,
                                                      .y = DType::kF32,
                                                      .rows = rows,
                                                      .columns = s_.keys,
                                                      .depth = s_.width,
                                                      .batches = heads_at_once_,
                                                      .x_row = s_.q.row,
                                                      .w_row = s_.k.row,
                                                      .y_row = step_,
                                                      .x_batch = s_.width,
                                                      .w_batch = shares_keys_ ? 0 : s_.width,
                                                      .y_batch = block_ * step_,
                                                      .alpha = op_.f32("scale"),
                                                      .measured = true}));
    DIF_ASSIGN(result.values, Matmul::create(device, {.x = dtype_,
                                                      .y = dtype_,
                                                      .rows = rows,
                                                      .columns = s_.value_width,
                                                      .depth = s_.keys,
                                                      .batches = heads_at_once_,
                                                      .x_row = step_,
                                                      .w_row = s_.v.row,
                                                      .y_row = s_.y.row,
                                                      .x_batch = block_ * step_,
                                                      .w_batch = shares_keys_ ? 0 : s_.value_width,
                                                      .y_batch = s_.value_width,
                                                      .w_by_depth = true,
                                                      .measured = true}));
    return result;
  }

  Status run_block(const runtime::KernelArgs& args, std::int64_t batch, std::int64_t head,
                   std::int64_t query) {
    const std::int64_t rows = std::min(block_, s_.queries - query);
    const std::int64_t key_head = head / (s_.heads / s_.key_heads);
    const Products& products = rows == block_ ? whole_ : rest_;
    const auto at = [&](const runtime::TensorView& tensor, std::int64_t element) {
      return runtime::BufferView{tensor.buffer.base,
                                 tensor.buffer.offset + static_cast<std::uint64_t>(element * element_)};
    };
    const runtime::BufferView scores = args.workspace;
    const runtime::BufferView probabilities = {scores.base,
                                               scores.offset + (dtype_ == DType::kF32 ? 0 : score_bytes())};
    const runtime::BufferView scratch = {scores.base, scores.offset + score_bytes() + probability_bytes()};
    const runtime::BufferView q = at(args.in[0], batch * s_.q.batch + query * s_.q.row + head * s_.width);
    const runtime::BufferView k = at(args.in[1], batch * s_.k.batch + key_head * s_.width);
    const runtime::BufferView v = at(args.in[2], batch * s_.v.batch + key_head * s_.value_width);
    const runtime::BufferView y =
        at(args.out[0], batch * s_.y.batch + query * s_.y.row + head * s_.value_width);
    runtime::BufferView mask = args.in[op_.has(3) ? 3 : 0].buffer;
    if (op_.has(3)) mask.offset += static_cast<std::uint64_t>(batch * s_.keys);
    DIF_TRY(products.scores.run(q, k, scores, {}, scratch));
    DIF_TRY(softmax_.launch({rows, heads_at_once_},
                            {scores, probabilities, mask, integer(s_.keys), integer(step_), integer(block_),
                             integer(query), std::int32_t{op_.has(3)}, std::int32_t{op_.flag("causal")}}));
    return products.values.run(probabilities, v, y, {}, scratch);
  }

  // Whole lines of 256 bytes: what follows in the workspace is aligned as libraries want it.
  std::uint64_t score_bytes() const {
    return align_up(static_cast<std::uint64_t>(4 * heads_at_once_ * block_ * step_), 256);
  }
  std::uint64_t probability_bytes() const {
    const auto bytes = static_cast<std::uint64_t>(element_ * heads_at_once_ * block_ * step_);
    return dtype_ == DType::kF32 ? 0 : align_up(bytes, 256);
  }

  const ir::OpView& op_;
  const Sizes s_;
  const DType dtype_;
  const std::int64_t element_;
  const bool shares_keys_;
  const std::int64_t heads_at_once_;
  const std::int64_t step_;   ///< elements between rows of scores
  const std::int64_t block_;  ///< queries at once
  CudaKernel softmax_;
  Products whole_, rest_;
};

// --- streaming -------------------------------------------------------------------------------------------

constexpr int kStreamThreads = 256;
constexpr std::int64_t kWarps = kStreamThreads / 32;

/// A warp has @queries@ queries; its lanes share out 32 keys for the scores, and then the columns of the
/// values. Keys and values pass through shared memory in pieces of 32 x 32. A running maximum and sum make
/// one pass enough (Milakov & Gimelshein 2018).
constexpr const char* kStream = R"(
extern "C" __global__ void __launch_bounds__(256)
attend(const @T@* q, const @T@* k, const @T@* v, const unsigned char* mask, @T@* y, int queries, int keys, int heads,
       int key_heads, int width, int value_width, int masked, int causal, float scale, Index q_row, Index q_batch,
       Index k_row, Index k_batch, Index v_row, Index v_batch, Index y_row, Index y_batch) {
  __shared__ float q_piece[8 * @queries@][33], k_piece[32][33];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, head = blockIdx.y;
  const Index batch = blockIdx.z;
  const int first = blockIdx.x * 8 * @queries@, mine = first + warp * @queries@, key_head = head / (heads / key_heads);
  q += batch * q_batch + head * width;
  y += batch * y_batch + head * value_width;
  k += batch * k_batch + key_head * width;
  v += batch * v_batch + key_head * value_width;
  mask += masked ? batch * keys : 0;
  float most[@queries@], total[@queries@], sums[@queries@][@columns@];
#pragma unroll
  for (int r = 0; r < @queries@; ++r) {
    most[r] = -INFINITE;
    total[r] = 0;
#pragma unroll
    for (int c = 0; c < @columns@; ++c) sums[r][c] = 0;
  }
  const int limit = causal ? min(keys, first + 8 * @queries@) : keys;
  for (int k0 = 0; k0 < limit; k0 += 32) {
    float s[@queries@] = {};
    for (int d0 = 0; d0 < width; d0 += 32) {
      const bool inside = d0 + lane < width;
      for (int j = warp; j < 32; j += 8)
        k_piece[j][lane] = inside && k0 + j < keys ? decode(k[(k0 + j) * k_row + d0 + lane]) : 0.0f;
      for (int j = warp; j < 8 * @queries@; j += 8)
        q_piece[j][lane] = inside && first + j < queries ? decode(q[(first + j) * q_row + d0 + lane]) : 0.0f;
      __syncthreads();
      float part[@queries@] = {};
#pragma unroll
      for (int d = 0; d < 32; ++d)
#pragma unroll
        for (int r = 0; r < @queries@; ++r)
          part[r] = fmaf(q_piece[warp * @queries@ + r][d], k_piece[lane][d], part[r]);
#pragma unroll
      for (int r = 0; r < @queries@; ++r) s[r] += part[r];
      __syncthreads();
    }
    const bool shown = k0 + lane < keys && (!masked || mask[k0 + lane]);
#pragma unroll
    for (int r = 0; r < @queries@; ++r) {
      const float score = shown && (!causal || k0 + lane <= mine + r) ? s[r] * scale : -INFINITE;
      const float now = fmaxf(most[r], warp_max(score)), base = now == -INFINITE ? 0.0f : now;
      const float e = expf(score - base), rescale = expf(most[r] - base);
      most[r] = now;
      total[r] = total[r] * rescale + warp_sum(e);
      s[r] = e;
#pragma unroll
      for (int c = 0; c < @columns@; ++c) sums[r][c] *= rescale;
    }
#pragma unroll
    for (int c = 0; c < @columns@; ++c) {
      for (int j = warp; j < 32; j += 8)
        k_piece[j][lane] = c * 32 + lane < value_width && k0 + j < keys
                               ? decode(v[(k0 + j) * v_row + c * 32 + lane]) : 0.0f;
      __syncthreads();
      float part[@queries@] = {};
#pragma unroll
      for (int j = 0; j < 32; ++j)
#pragma unroll
        for (int r = 0; r < @queries@; ++r)
          part[r] = fmaf(__shfl_sync(0xffffffffu, s[r], j), k_piece[j][lane], part[r]);
#pragma unroll
      for (int r = 0; r < @queries@; ++r) sums[r][c] += part[r];
      __syncthreads();
    }
  }
#pragma unroll
  for (int r = 0; r < @queries@; ++r)
#pragma unroll
    for (int c = 0; c < @columns@; ++c)
      if (mine + r < queries && c * 32 + lane < value_width)
        y[(mine + r) * y_row + c * 32 + lane] =
            encode<@T@>(total[r] == 0.0f ? 0.0f : sums[r][c] / total[r]);
}
)";

class StreamingAttention final : public runtime::Kernel {
 public:
  StreamingAttention(CudaKernel kernel, std::int64_t queries_of_block, const KernelRequest& request)
      : kernel_(kernel), queries_of_block_(queries_of_block), op_(*request.op), sizes_(sizes(request)) {}

  Status run(const runtime::KernelArgs& args) override {
    const Sizes& s = sizes_;
    const bool masked = op_.has(3);
    return kernel_.launch({ceil_div(s.queries, queries_of_block_), s.heads, s.batches},
                          {args.in[0].buffer,
                           args.in[1].buffer,
                           args.in[2].buffer,
                           args.in[masked ? 3 : 0].buffer,
                           args.out[0].buffer,
                           integer(s.queries),
                           integer(s.keys),
                           integer(s.heads),
                           integer(s.key_heads),
                           integer(s.width),
                           integer(s.value_width),
                           std::int32_t{masked},
                           std::int32_t{op_.flag("causal")},
                           op_.f32("scale"),
                           s.q.row,
                           s.q.batch,
                           s.k.row,
                           s.k.batch,
                           s.v.row,
                           s.v.batch,
                           s.y.row,
                           s.y.batch});
  }

 private:
  CudaKernel kernel_;
  const std::int64_t queries_of_block_;
  const ir::OpView& op_;
  const Sizes sizes_;
};

}  // namespace

MakeResult make_dnn_attention(const KernelRequest& request) {
  const ir::OpView& op = *request.op;
  const Sizes s = sizes(request);
  if (op.in(0).dtype != DType::kBF16 && op.in(0).dtype != DType::kF16)
    return runtime::declined("cuDNN's attention is for bf16 and f16");
  if (op.has(3) && s.batches > 65535) return runtime::declined("masks of {} batches", s.batches);
  if (s.width % 8 != 0 || s.value_width % 8 != 0 || std::max(s.width, s.value_width) > 256)
    return runtime::declined("head widths {} and {} are no multiples of 8 up to 256", s.width, s.value_width);
  if (op.out().numel() == 0 || s.keys == 0) return runtime::declined("cuDNN takes no empty tensors");
  if (!(op.f32("scale") > 0)) return runtime::declined("a scale of {}", op.f32("scale"));
  const runtime::KernelChoices* const choices = device_of(request.device).choices();
  const auto heuristic = choices == nullptr ? runtime::AttentionHeuristic::kDefault : choices->attention;
  DIF_ASSIGN(DnnPlans* const dnn, device_of(request.device).dnn());
  DIF_ASSIGN(auto graph,
             dnn->attention(device_of(request.device), {.dtype = op.in(0).dtype,
                                                        .batches = s.batches,
                                                        .queries = s.queries,
                                                        .keys = s.keys,
                                                        .heads = s.heads,
                                                        .key_heads = s.key_heads,
                                                        .width = s.width,
                                                        .value_width = s.value_width,
                                                        .causal = op.flag("causal"),
                                                        .scale = op.f32("scale"),
                                                        .bias_row = op.has(3) ? DnnAttention::bias_row(s) : 0,
                                                        .heuristic = heuristic,
                                                        .q = s.q,
                                                        .k = s.k,
                                                        .v = s.v,
                                                        .y = s.y}));
  auto kernel = std::make_unique<DnnAttention>(request);
  DIF_TRY(kernel->prepare(device_of(request.device), std::move(graph)));
  return kernel;
}

MakeResult make_matmul_attention(const KernelRequest& request) {
  const ir::OpView& op = *request.op;
  DIF_TRY(computable(op));
  const Sizes s = sizes(request);
  if (op.out().numel() == 0 || s.keys == 0 || s.width == 0)
    return runtime::declined("cuBLASLt multiplies no empty matrices");
  const auto element = static_cast<std::int64_t>(dtype_size(op.in(0).dtype));
  if (s.width * element % 16 != 0 || s.value_width * element % 16 != 0)
    return runtime::declined("heads of {} and {} elements are no multiples of 16 bytes", s.width,
                             s.value_width);
  if (s.heads > 65535) return runtime::declined("{} heads", s.heads);
  if (op.in(0).dtype != DType::kF32 && s.keys < kFewKeys)
    return runtime::declined("{} keys: rounding their probabilities to {} would show", s.keys,
                             op.in(0).dtype);
  auto kernel = std::make_unique<MatmulAttention>(request);
  DIF_TRY(kernel->prepare(request));
  return kernel;
}

MakeResult make_streaming_attention(const KernelRequest& request) {
  const ir::OpView& op = *request.op;
  DIF_TRY(computable(op));
  const Sizes s = sizes(request);
  if (s.value_width > 1024) return runtime::declined("values of {} > 1024 columns", s.value_width);
  if (s.heads > 65535 || s.batches > 65535)
    return runtime::declined("{} heads, {} batches", s.heads, s.batches);
  const std::int64_t columns = std::max<std::int64_t>(1, ceil_div(s.value_width, 32));
  const std::int64_t queries = columns <= 4 ? 4 : columns <= 8 ? 2 : 1;
  DIF_ASSIGN(const CudaKernel kernel,
             device_of(request.device)
                 .kernel(prelude() + fill(kStream, {{"T", type_name(op.in(0).dtype)},
                                                    {"queries", fmt::format("{}", queries)},
                                                    {"columns", fmt::format("{}", columns)}}),
                         "attend", kStreamThreads));
  return std::make_unique<StreamingAttention>(kernel, kWarps * queries, request);
}

}  // namespace dif::cuda
