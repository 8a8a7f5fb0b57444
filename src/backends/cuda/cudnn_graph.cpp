#include "backends/cuda/cudnn_graph.h"

#include <exception>
#include <set>
#include <string>
#include <utility>
#include <vector>

// The frontend finds cuDNN's functions in cudnn_dlhandle, and opens nothing that is linked.
#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
#define NV_CUDNN_FRONTEND_DISABLE_LOGGING
#include <cudnn_frontend.h>

namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;
}

namespace dif::cuda {

namespace fe = cudnn_frontend;

namespace {

using Dims = std::vector<std::int64_t>;

fe::DataType_t data_type(DType dtype) {
  if (dtype == DType::kF32) return fe::DataType_t::FLOAT;
  return dtype == DType::kBF16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::HALF;
}

Status accepted(fe::error_t error) {
  if (error.is_good()) return ok();
  return runtime::declined("cuDNN: {}", error.get_message());
}

/// Runs `body`, which calls the frontend: what it throws is a reason to decline.
template <class Body>
auto guarded(Body&& body) -> decltype(body()) {
  try {
    return body();
  } catch (const std::exception& exception) {
    return runtime::declined("cuDNN: {}", exception.what());
  }
}

class BuiltGraph final : public DnnGraph {
 public:
  BuiltGraph(cudnnHandle_t handle, std::shared_ptr<fe::graph::Graph> graph, std::uint64_t workspace_bytes)
      : handle_(handle), graph_(std::move(graph)), workspace_bytes_(workspace_bytes) {}

  std::uint64_t workspace_bytes() const override { return workspace_bytes_; }
  Status run(std::span<const runtime::BufferView> tensors, runtime::BufferView workspace) override {
    std::unordered_map<std::int64_t, void*> pack;
    for (std::size_t i = 0; i < tensors.size(); ++i)
      pack[static_cast<std::int64_t>(i)] = tensors[i].pointer();
    fe::error_t error = graph_->execute(handle_, pack, workspace_bytes_ == 0 ? nullptr : workspace.pointer());
    if (error.is_good()) return ok();
    return fail(ErrorCode::kUnavailable, "cuDNN does not run its own plan: {}", error.get_message());
  }
  std::vector<std::byte> serialized() const override {
    try {
      std::vector<std::uint8_t> bytes;
      if (!graph_->serialize(bytes, false).is_good()) return {};
      const auto raw = std::as_bytes(std::span(bytes));
      return {raw.begin(), raw.end()};
    } catch (const std::exception&) {  // an engine without that
      return {};
    }
  }

 private:
  cudnnHandle_t handle_;
  std::shared_ptr<fe::graph::Graph> graph_;
  std::uint64_t workspace_bytes_;
};

fe::graph::Tensor_attributes tensor(std::int64_t id, const char* name, const Dims& dims,
                                    const Dims& strides) {
  return fe::graph::Tensor_attributes().set_uid(id).set_name(name).set_dim(dims).set_stride(strides);
}

/// Pre: the graph has its plan.
Result<std::unique_ptr<DnnGraph>> built(cudnnHandle_t handle, std::shared_ptr<fe::graph::Graph> graph) {
  std::int64_t workspace = 0;
  DIF_TRY(accepted(graph->get_workspace_size(workspace)));
  if (workspace < 0) return runtime::declined("cuDNN: a plan with {} bytes of scratch memory", workspace);
  return std::make_unique<BuiltGraph>(handle, std::move(graph), static_cast<std::uint64_t>(workspace));
}

const std::vector<fe::HeurMode_t> kBestFirst = {fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK};

std::vector<fe::HeurMode_t> modes(runtime::AttentionHeuristic heuristic) {
  if (heuristic == runtime::AttentionHeuristic::kB) return {fe::HeurMode_t::B, fe::HeurMode_t::FALLBACK};
  if (heuristic == runtime::AttentionHeuristic::kFallback) return {fe::HeurMode_t::FALLBACK};
  return kBestFirst;
}

/// Lists plans, best first.
Status list_plans(cudnnHandle_t handle, fe::graph::Graph& graph, const std::vector<fe::HeurMode_t>& modes,
                  const std::vector<fe::NumericalNote_t>& without) {
  DIF_TRY(accepted(graph.validate()));
  DIF_TRY(accepted(graph.build_operation_graph(handle)));
  DIF_TRY(accepted(graph.create_execution_plans(modes)));
  graph.deselect_numeric_notes(without);
  return accepted(graph.check_support());
}

/// The first plan that builds.
Result<std::unique_ptr<DnnGraph>> build(cudnnHandle_t handle, std::shared_ptr<fe::graph::Graph> graph,
                                        const std::vector<fe::HeurMode_t>& modes,
                                        const std::vector<fe::NumericalNote_t>& without) {
  DIF_TRY(list_plans(handle, *graph, modes, without));
  DIF_TRY(accepted(graph->build_plans(fe::BuildPlanPolicy_t::HEURISTICS_CHOICE)));
  return built(handle, std::move(graph));
}

std::shared_ptr<fe::graph::Graph> new_graph(DType dtype) {
  auto graph = std::make_shared<fe::graph::Graph>();
  graph->set_io_data_type(data_type(dtype))
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  return graph;
}

std::shared_ptr<fe::graph::Graph> attention_graph(const AttentionShape& s) {
  const auto graph = new_graph(s.dtype);
  // cuDNN names axes [B, H, S, D]; in memory they lie as [B, S, H, D].
  const auto operand = [&](std::int64_t id, const char* name, std::int64_t positions, std::int64_t heads,
                           std::int64_t width, const RowSteps& steps) {
    return tensor(id, name, {s.batches, heads, positions, width}, {steps.batch, width, steps.row, 1});
  };
  const auto q = graph->tensor(operand(0, "q", s.queries, s.heads, s.width, s.q));
  const auto k = graph->tensor(operand(1, "k", s.keys, s.key_heads, s.width, s.k));
  const auto v = graph->tensor(operand(2, "v", s.keys, s.key_heads, s.value_width, s.v));
  auto settings =
      fe::graph::SDPA_attributes().set_name("attention").set_generate_stats(false).set_attn_scale(s.scale);
  if (s.causal) settings.set_causal_mask(true);
  if (s.bias_row != 0)  // one row for all heads and queries
    settings.set_bias(
        graph->tensor(tensor(4, "bias", {s.batches, 1, 1, s.keys}, {s.bias_row, s.bias_row, s.bias_row, 1})
                          .set_data_type(fe::DataType_t::FLOAT)));
  auto [y, stats] = graph->sdpa(q, k, v, settings);
  y->set_output(true)
      .set_uid(3)
      .set_dim({s.batches, s.heads, s.queries, s.value_width})
      .set_stride({s.y.batch, s.value_width, s.y.row, 1});
  return graph;
}

const std::vector<fe::NumericalNote_t> kNotOfOneOrder = {fe::NumericalNote_t::NONDETERMINISTIC};

}  // namespace

Result<void*> create_dnn_handle(const DnnLibrary& library, CUstream stream) {
  fe::cudnn_dlhandle = library.handle;
  return guarded([&]() -> Result<void*> {
    cudnnHandle_t handle = nullptr;
    if (const cudnnStatus_t code = fe::detail::create_handle(&handle); code != CUDNN_STATUS_SUCCESS)
      return runtime::declined("cuDNN {} ({}) does not start: {}", library.version, library.file,
                               fe::detail::get_error_string(code));
    fe::detail::set_stream(handle, stream);
    return static_cast<void*>(handle);
  });
}

void destroy_dnn_handle(void* handle) {
  fe::detail::destroy_handle(static_cast<cudnnHandle_t>(handle));
}

Result<std::unique_ptr<DnnGraph>> build_attention(void* handle, const AttentionShape& s) {
  return guarded([&]() -> Result<std::unique_ptr<DnnGraph>> {
    return build(static_cast<cudnnHandle_t>(handle), attention_graph(s), modes(s.heuristic), kNotOfOneOrder);
  });
}

Result<std::vector<std::unique_ptr<DnnGraph>>> build_attentions(void* handle, const AttentionShape& s,
                                                                std::size_t most) {
  using Plans = std::vector<std::unique_ptr<DnnGraph>>;
  const auto cudnn = static_cast<cudnnHandle_t>(handle);
  const std::vector<fe::HeurMode_t> all = {fe::HeurMode_t::A, fe::HeurMode_t::B, fe::HeurMode_t::FALLBACK};
  return guarded([&]() -> Result<Plans> {
    const auto listed = attention_graph(s);
    DIF_TRY(list_plans(cudnn, *listed, all, kNotOfOneOrder));
    Plans plans;
    std::set<std::string> names;
    for (std::int64_t i = 0; i < listed->get_execution_plan_count() && plans.size() < most; ++i) {
      std::string name;
      if (listed->get_plan_name_at_index(i, name).is_bad() || !names.insert(name).second) continue;
      auto plan = guarded([&]() -> Result<std::unique_ptr<DnnGraph>> {
        const auto graph = attention_graph(s);  // which keeps one plan
        DIF_TRY(list_plans(cudnn, *graph, all, kNotOfOneOrder));
        DIF_TRY(accepted(graph->build_plan_at_index(cudnn, i)));
        return built(cudnn, graph);
      });
      if (plan) plans.push_back(std::move(*plan));
    }
    if (plans.empty()) return runtime::declined("cuDNN builds none of {} plans", names.size());
    return plans;
  });
}

Result<std::unique_ptr<DnnGraph>> build_convolution(void* handle, const ConvolutionShape& s) {
  return guarded([&]() -> Result<std::unique_ptr<DnnGraph>> {
    const auto graph = new_graph(s.dtype);
    const auto operand = [&](std::int64_t id, const char* name, const std::array<std::int64_t, 4>& d) {
      const Dims strides = s.channels_last ? Dims{d[1] * d[2] * d[3], 1, d[1] * d[3], d[1]}
                                           : Dims{d[1] * d[2] * d[3], d[2] * d[3], d[3], 1};
      return tensor(id, name, {d.begin(), d.end()}, strides);
    };
    const auto x = graph->tensor(operand(0, "x", s.x)), w = graph->tensor(operand(1, "w", s.w));
    auto y = graph->conv_fprop(x, w,
                               fe::graph::Conv_fprop_attributes()
                                   .set_pre_padding({s.pads[0], s.pads[1]})
                                   .set_post_padding({s.pads[2], s.pads[3]})
                                   .set_stride({s.strides[0], s.strides[1]})
                                   .set_dilation({1, 1}));
    if (s.biased) {
      const auto bias = graph->tensor(tensor(3, "bias", {1, s.w[0], 1, 1}, {s.w[0], 1, s.w[0], s.w[0]}));
      y = graph->pointwise(y, bias, fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::ADD));
    }
    if (s.added) {
      const auto added = graph->tensor(operand(s.biased ? 4 : 3, "added", s.y));
      y = graph->pointwise(y, added, fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::ADD));
    }
    const auto like = operand(2, "y", s.y);
    y->set_output(true).set_uid(2).set_dim(like.get_dim()).set_stride(like.get_stride());
    std::vector<fe::NumericalNote_t> without = {fe::NumericalNote_t::NONDETERMINISTIC,
                                                fe::NumericalNote_t::REDUCED_PRECISION_REDUCTION};
    if (s.dtype == DType::kF32)
      without.insert(without.end(),
                     {fe::NumericalNote_t::TENSOR_CORE, fe::NumericalNote_t::DOWN_CONVERT_INPUTS,
                      fe::NumericalNote_t::WINOGRAD, fe::NumericalNote_t::FFT});
    return build(static_cast<cudnnHandle_t>(handle), graph, kBestFirst, without);
  });
}

std::uint64_t dnn_frontend_version() {
  return CUDNN_FRONTEND_VERSION;
}

Result<std::unique_ptr<DnnGraph>> restore_graph(void* handle, std::span<const std::byte> bytes) {
  return guarded([&]() -> Result<std::unique_ptr<DnnGraph>> {
    const auto* const first = reinterpret_cast<const std::uint8_t*>(bytes.data());
    const json document = json::from_ubjson(first, first + bytes.size());
    const auto graph = std::make_shared<fe::graph::Graph>();
    DIF_TRY(accepted(graph->deserialize(static_cast<cudnnHandle_t>(handle), document, false, false)));
    return built(static_cast<cudnnHandle_t>(handle), graph);
  });
}

}  // namespace dif::cuda
