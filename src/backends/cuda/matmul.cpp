#include "backends/cuda/matmul.h"

#include <vector>

#include "backends/cuda/matmul_choice.h"
#include "base/check.h"
#include "runtime/kernel.h"

namespace dif::cuda {

namespace {

cudaDataType_t data_type(DType dtype) {
  if (dtype == DType::kF32) return CUDA_R_32F;
  return dtype == DType::kBF16 ? CUDA_R_16BF : CUDA_R_16F;
}

constexpr std::size_t kCandidates = 8, kMoreCandidates = 64;
constexpr std::uint32_t kAlignment = 16;  ///< of every operand, in bytes

}  // namespace

/// What cuBLASLt keeps of a product. It counts columns first, so it computes y^T = w x^T.
struct Matmul::Description {
  const MatmulApi& api;
  float alpha = 1;
  bool biased = false;
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t w = nullptr, x = nullptr, y = nullptr;
  cublasLtMatmulPreference_t preference = nullptr;
  cublasLtMatmulAlgo_t algorithm = {};

  explicit Description(const MatmulApi& library) : api(library) {}
  Description(const Description&) = delete;
  Description& operator=(const Description&) = delete;
  ~Description() {
    if (preference != nullptr) api.cublasLtMatmulPreferenceDestroy(preference);
    for (cublasLtMatrixLayout_t layout : {w, x, y})
      if (layout != nullptr) api.cublasLtMatrixLayoutDestroy(layout);
    if (operation != nullptr) api.cublasLtMatmulDescDestroy(operation);
  }

  template <class T>
  Status set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
    return api.checked("cublasLtMatmulDescSetAttribute",
                       api.cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof(value)));
  }
  template <class T>
  Status prefer(cublasLtMatmulPreferenceAttributes_t attribute, const T& value) {
    return api.checked(
        "cublasLtMatmulPreferenceSetAttribute",
        api.cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof(value)));
  }
  Status layout(cublasLtMatrixLayout_t& made, DType dtype, std::int64_t height, std::int64_t width,
                std::int64_t step, const MatmulShape& shape, std::int64_t batch_step) {
    DIF_TRY(api.checked(
        "cublasLtMatrixLayoutCreate",
        api.cublasLtMatrixLayoutCreate(&made, data_type(dtype), static_cast<std::uint64_t>(height),
                                       static_cast<std::uint64_t>(width), step)));
    const auto batches = static_cast<std::int32_t>(shape.batches);
    DIF_TRY(api.checked("cublasLtMatrixLayoutSetAttribute",
                        api.cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                                                             &batches, sizeof(batches))));
    return api.checked("cublasLtMatrixLayoutSetAttribute",
                       api.cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                                            &batch_step, sizeof(batch_step)));
  }

  Status describe(const MatmulShape& shape) {
    alpha = shape.alpha;
    biased = shape.biased;
    DIF_TRY(api.checked("cublasLtMatmulDescCreate",
                        api.cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F)));
    DIF_TRY(set(CUBLASLT_MATMUL_DESC_TRANSA, shape.w_by_depth ? CUBLAS_OP_N : CUBLAS_OP_T));
    if (shape.biased) {
      DIF_TRY(set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS));
      DIF_TRY(set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, data_type(shape.y)));
    }
    const std::int64_t w_height = shape.w_by_depth ? shape.columns : shape.depth;
    const std::int64_t w_width = shape.w_by_depth ? shape.depth : shape.columns;
    DIF_TRY(layout(w, shape.x, w_height, w_width, shape.w_row, shape, shape.w_batch));
    DIF_TRY(layout(x, shape.x, shape.depth, shape.rows, shape.x_row, shape, shape.x_batch));
    DIF_TRY(layout(y, shape.y, shape.columns, shape.rows, shape.y_row, shape, shape.y_batch));
    DIF_TRY(api.checked("cublasLtMatmulPreferenceCreate", api.cublasLtMatmulPreferenceCreate(&preference)));
    DIF_TRY(prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{kMatmulWorkspace}));
    // Sums in the result's own dtype, or by whoever comes first, would depend on more than the operands.
    DIF_TRY(prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                   static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE)));
    for (const auto attribute :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
      DIF_TRY(prefer(attribute, kAlignment));
    return ok();
  }

  /// Whether an algorithm of an earlier process can run here, in how much workspace, with sums of one order.
  bool serves(cublasLtHandle_t handle, const cublasLtMatmulAlgo_t& algo,
              std::uint64_t& workspace_bytes) const {
    cublasLtMatmulHeuristicResult_t result = {};
    std::uint32_t scheme = 0;
    std::size_t written = 0;
    if (api.cublasLtMatmulAlgoCheck(handle, operation, w, x, y, y, &algo, &result) != CUBLAS_STATUS_SUCCESS ||
        api.cublasLtMatmulAlgoConfigGetAttribute(&algo, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &scheme,
                                                 sizeof(scheme), &written) != CUBLAS_STATUS_SUCCESS)
      return false;
    workspace_bytes = result.workspaceSize;
    return workspace_bytes <= kMatmulWorkspace &&
           (scheme & ~std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE}) == 0;
  }
};

Result<Matmul> Matmul::create(CudaDevice& device, const MatmulShape& shape, const MatmulWish& wish) {
  if (shape.rows == 0 || shape.columns == 0 || shape.depth == 0 || shape.batches == 0)
    return runtime::declined("cuBLASLt multiplies no empty matrices");
  DIF_ASSIGN(const cublasLtHandle_t handle, device.matmul());
  const MatmulApi& api = **MatmulApi::load();
  Matmul matmul;
  matmul.device_ = &device;
  matmul.description_ = std::make_shared<Description>(api);
  Description& d = *matmul.description_;
  DIF_TRY(d.describe(shape));
  const auto find = [&]() -> Result<std::vector<cublasLtMatmulHeuristicResult_t>> {
    std::size_t wanted = !shape.measured ? 1 : wish.more_algorithms ? kMoreCandidates : kCandidates;
    if (wish.choice != nullptr && wish.choice->rank) wanted = kMoreCandidates;
    std::vector<cublasLtMatmulHeuristicResult_t> found(wanted);
    int n_found = 0;
    const cublasStatus_t status =
        api.cublasLtMatmulAlgoGetHeuristic(handle, d.operation, d.w, d.x, d.y, d.y, d.preference,
                                           static_cast<int>(found.size()), found.data(), &n_found);
    if (status != CUBLAS_STATUS_SUCCESS || n_found == 0)
      return runtime::declined("cuBLASLt has no algorithm for this product ({})",
                               api.cublasLtGetStatusString(status));
    found.resize(static_cast<std::size_t>(n_found));
    return found;
  };
  const auto run = [&](const cublasLtMatmulAlgo_t& algorithm, std::uint64_t workspace_bytes,
                       std::span<const runtime::BufferView, 5> memory) {
    d.algorithm = algorithm;
    matmul.workspace_bytes_ = workspace_bytes;
    return matmul.run(memory[0], memory[1], memory[2], memory[3], memory[4]);
  };
  const auto check = [&](const cublasLtMatmulAlgo_t& algorithm, std::uint64_t& workspace_bytes) {
    return d.serves(handle, algorithm, workspace_bytes);
  };
  DIF_ASSIGN(const MatmulChoice choice, choose_matmul(device, shape, wish, api.version, find, run, check));
  d.algorithm = choice.algorithm;
  matmul.workspace_bytes_ = choice.workspace_bytes;
  matmul.choice_ = choice.reason;
  return matmul;
}

Status Matmul::run(runtime::BufferView x, runtime::BufferView w, runtime::BufferView y,
                   runtime::BufferView bias, runtime::BufferView workspace) const {
  Description& d = *description_;
  DIF_ASSIGN(const cublasLtHandle_t handle, device_->matmul());
  if (d.biased) DIF_TRY(d.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(bias.pointer())));
  const float zero = 0;
  DIF_CHECK(workspace_bytes_ == 0 || reinterpret_cast<std::uintptr_t>(workspace.pointer()) % 256 == 0);
  return d.api.checked(
      "cublasLtMatmul",
      d.api.cublasLtMatmul(handle, d.operation, &d.alpha, w.pointer(), d.w, x.pointer(), d.x, &zero,
                           y.pointer(), d.y, y.pointer(), d.y, &d.algorithm,
                           workspace_bytes_ == 0 ? nullptr : workspace.pointer(), workspace_bytes_,
                           reinterpret_cast<cudaStream_t>(device_->stream())));
}

}  // namespace dif::cuda
