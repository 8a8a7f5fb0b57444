#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "backends/cuda/cuda_device.h"
#include "runtime/execution_options.h"

namespace dif::cuda {

/// A batch of matrix products by cuBLASLt, row-major: y[b] = alpha * x[b] w[b]^T (+ bias), x [rows, depth],
/// w [columns, depth]; or with `w_by_depth`, w [depth, columns] and y = alpha * x w. Strides are elements
/// between rows, and between the matrices of a batch; sums are f32, and f32 is never TF32.
struct MatmulShape {
  DType x = DType::kBF16, y = DType::kBF16;  ///< w is as x
  std::int64_t rows = 0, columns = 0, depth = 0, batches = 1;
  std::int64_t x_row = 0, w_row = 0, y_row = 0;
  std::int64_t x_batch = 0, w_batch = 0, y_batch = 0;
  bool w_by_depth = false;
  bool biased = false;  ///< bias [columns], as y
  float alpha = 1;
  /// Large products: run what cuBLASLt recommends and take the fastest (matmul_choice.h). Else its first.
  bool measured = false;
};

/// What the caller of prepare asks for one product; the defaults ask for nothing.
struct MatmulWish {
  bool more_algorithms = false;  ///< a longer list is measured
  const runtime::LinearChoice* choice = nullptr;
};

/// Scratch that algorithms may use.
inline constexpr std::uint64_t kMatmulWorkspace = 32 << 20;

class Matmul {
 public:
  /// The algorithm is one that cuBLASLt recommends, and of those whose sums have one order. Errors: Declined
  /// (no cuBLASLt, or it has no algorithm), InvalidInput (none has the rank that is asked for).
  static Result<Matmul> create(CudaDevice& device, const MatmulShape& shape, const MatmulWish& wish = {});

  /// `bias` is read when the shape says so; the workspace has workspace_bytes().
  Status run(runtime::BufferView x, runtime::BufferView w, runtime::BufferView y, runtime::BufferView bias,
             runtime::BufferView workspace) const;
  std::uint64_t workspace_bytes() const { return workspace_bytes_; }
  /// Which algorithm, and why; empty where nothing was compared.
  const std::string& choice() const { return choice_; }

 private:
  struct Description;
  CudaDevice* device_ = nullptr;
  std::shared_ptr<Description> description_;
  std::uint64_t workspace_bytes_ = 0;
  std::string choice_;
};

}  // namespace dif::cuda
