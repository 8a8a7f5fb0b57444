#include "backends/cuda/dnn_plans.h"

#include <cstring>
#include <initializer_list>
#include <utility>

#include "backends/cuda/attention_choice.h"
#include "io/digest.h"

namespace dif::cuda {

namespace {

/// A plan takes up to a second to build.
constexpr std::size_t kMostPlans = 16;

void add_numbers(io::CacheKey& key, std::string_view field, std::initializer_list<std::int64_t> numbers) {
  for (const std::int64_t number : numbers) key.add(field, static_cast<std::uint64_t>(number));
}

template <std::size_t n>
void add_numbers(io::CacheKey& key, std::string_view field, const std::array<std::int64_t, n>& numbers) {
  for (const std::int64_t number : numbers) key.add(field, static_cast<std::uint64_t>(number));
}

/// What is kept of a plan: how it was measured, and its bytes. Empty where cuDNN does not write it down.
std::vector<std::byte> kept(const DnnGraph& graph) {
  std::vector<std::byte> bytes = graph.serialized();
  const auto measured = std::as_bytes(std::span(&graph.measured, 1));
  if (!bytes.empty()) bytes.insert(bytes.begin(), measured.begin(), measured.end());
  return bytes;
}

std::unique_ptr<DnnGraph> restored(void* handle, std::span<const std::byte> bytes) {
  PlanMeasurement measured;
  if (bytes.size() < sizeof(measured)) return nullptr;
  auto graph = restore_graph(handle, bytes.subspan(sizeof(measured)));
  if (!graph) return nullptr;
  std::memcpy(&(*graph)->measured, bytes.data(), sizeof(measured));
  return std::move(*graph);
}

}  // namespace

Result<std::unique_ptr<DnnPlans>> DnnPlans::create(const DnnLibrary& library, CUstream stream,
                                                   const DeviceFacts& facts, int driver_version,
                                                   io::CacheStore& cache) {
  DIF_ASSIGN(void* const handle, create_dnn_handle(library, stream));
  io::CacheKey base("cudnn-plans", 2);
  base.add("library", library.version)
      .add("frontend", dnn_frontend_version())
      .add("device", facts.name)
      .add("capability", static_cast<std::uint64_t>(facts.capability))
      .add("driver", static_cast<std::uint64_t>(driver_version));
  return std::unique_ptr<DnnPlans>(new DnnPlans(handle, std::move(base), cache));
}

DnnPlans::~DnnPlans() {
  destroy_dnn_handle(handle_);
}

/// A kept plan that cuDNN does not take is made anew.
template <class Build>
Result<std::shared_ptr<DnnGraph>> DnnPlans::find(const io::CacheKey& key, Build build) {
  std::weak_ptr<DnnGraph>& known = graphs_[io::hex(key.digest())];
  if (auto graph = known.lock()) return graph;
  std::shared_ptr<DnnGraph> graph;
  if (const auto entry = cache_.find(key)) graph = restored(handle_, entry->bytes);
  if (graph == nullptr) {
    DIF_ASSIGN(graph, build());
    if (const std::vector<std::byte> bytes = kept(*graph); !bytes.empty()) cache_.store(key, bytes);
  }
  known = graph;
  return graph;
}

Result<std::shared_ptr<DnnGraph>> DnnPlans::attention(CudaDevice& device, const AttentionShape& s) {
  io::CacheKey key = base_;
  key.add("operation", "attention")
      .add("dtype", dtype_name(s.dtype))
      .add("scale", fmt::format("{:a}", s.scale));
  add_numbers(key, "sizes",
              {s.batches, s.queries, s.keys, s.heads, s.key_heads, s.width, s.value_width, s.causal});
  if (s.bias_row != 0) key.add("bias", static_cast<std::uint64_t>(s.bias_row));
  if (s.heuristic != runtime::AttentionHeuristic::kDefault)
    key.add("heuristic", static_cast<std::uint64_t>(s.heuristic));
  for (const RowSteps& steps : {s.q, s.k, s.v, s.y}) add_numbers(key, "steps", {steps.row, steps.batch});
  return find(key, [&]() -> Result<std::unique_ptr<DnnGraph>> {
    if (s.heuristic != runtime::AttentionHeuristic::kAutotune) return build_attention(handle_, s);
    DIF_ASSIGN(auto plans, build_attentions(handle_, s, kMostPlans));
    return fastest_attention(device, s, std::move(plans));
  });
}

Result<std::shared_ptr<DnnGraph>> DnnPlans::convolution(const ConvolutionShape& s) {
  io::CacheKey key = base_;
  key.add("operation", "convolution").add("dtype", dtype_name(s.dtype));
  add_numbers(key, "x", s.x);
  add_numbers(key, "w", s.w);
  add_numbers(key, "y", s.y);
  add_numbers(key, "strides", s.strides);
  add_numbers(key, "pads", s.pads);
  add_numbers(key, "form", {s.channels_last, s.biased, s.added});
  return find(key, [&] { return build_convolution(handle_, s); });
}

}  // namespace dif::cuda
