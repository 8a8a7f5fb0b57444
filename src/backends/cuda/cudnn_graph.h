#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backends/cuda/cuda_api.h"
#include "backends/cuda/row_steps.h"
#include "dif/dtype.h"
#include "runtime/execution_options.h"
#include "runtime/kernel.h"

/// cuDNN's attention and convolution, through cudnn-frontend. This file keeps that large header to itself.
namespace dif::cuda {

/// A handle whose work goes to `stream`. Errors: Declined (cuDNN refuses).
Result<void*> create_dnn_handle(const DnnLibrary& library, CUstream stream);
void destroy_dnn_handle(void* handle);

/// How a plan was found to be the fastest of several.
struct PlanMeasurement {
  std::uint32_t rank = 0, plans = 0;  ///< 0 plans: it was not measured
  float microseconds = 0, first_microseconds = 0;
};

/// One built plan of cuDNN.
class DnnGraph {
 public:
  PlanMeasurement measured;

  virtual ~DnnGraph() = default;
  virtual std::uint64_t workspace_bytes() const = 0;
  /// `tensors` in the order of the function that made the graph.
  virtual Status run(std::span<const runtime::BufferView> tensors, runtime::BufferView workspace) = 0;
  /// The plan with its compiled kernel, for restore_graph(); empty where cuDNN cannot write this one down.
  virtual std::vector<std::byte> serialized() const = 0;
};

/// The frontend's version, which the bytes of DnnGraph::serialized() depend on.
std::uint64_t dnn_frontend_version();
/// The graph of DnnGraph::serialized(), without searching and compiling: milliseconds where that takes tens
/// of them. Errors: Declined (cuDNN does not take it).
Result<std::unique_ptr<DnnGraph>> restore_graph(void* handle, std::span<const std::byte> bytes);

struct AttentionShape {
  DType dtype = DType::kBF16;  ///< bf16 or f16
  std::int64_t batches = 0, queries = 0, keys = 0, heads = 0, key_heads = 0, width = 0, value_width = 0;
  bool causal = false;
  float scale = 1;
  std::int64_t bias_row = 0;  ///< f32 [B, Sk] with this many elements a row is added to scores; 0: nothing is
  runtime::AttentionHeuristic heuristic = runtime::AttentionHeuristic::kDefault;
  RowSteps q, k, v, y;  ///< a row is a position with all its heads
};
/// q, k, v, y, each [B, S, H, D], then what is added to scores, where there is such. Errors: Declined (cuDNN
/// has no engine, in its words).
Result<std::unique_ptr<DnnGraph>> build_attention(void* handle, const AttentionShape& shape);
/// The plans of all heuristics, each once, a's first in front, one to `most` of them; whatever `heuristic`
/// says.
Result<std::vector<std::unique_ptr<DnnGraph>>> build_attentions(void* handle, const AttentionShape& shape,
                                                                std::size_t most);

struct ConvolutionShape {
  DType dtype = DType::kF32;
  std::array<std::int64_t, 4> x{}, w{}, y{};  ///< [N, Ci, H, W], [Co, Ci / groups, Kh, Kw], [N, Co, Ho, Wo]
  std::array<std::int64_t, 2> strides{};
  std::array<std::int64_t, 4> pads{};  ///< top, left, bottom, right
  bool channels_last = false;          ///< all three lie as [N, H, W, C]
  bool biased = false;
  bool added = false;  ///< a tensor like y is added before the rounding
};
/// x, w, y, then bias [Co] and what is added, where there are such. f32 is exact f32, without TF32. Errors:
/// Declined.
Result<std::unique_ptr<DnnGraph>> build_convolution(void* handle, const ConvolutionShape& shape);

}  // namespace dif::cuda
