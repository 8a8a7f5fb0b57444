#pragma once

#include <cublasLt.h>

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "backends/cuda/matmul.h"

namespace dif::cuda {

/// One of the algorithms that cuBLASLt recommends for a product.
struct MatmulChoice {
  cublasLtMatmulAlgo_t algorithm = {};
  std::uint64_t workspace_bytes = 0;
  std::string reason;  ///< which of how many, and what they took
};

/// Submits the product with an algorithm: x, w, y, bias, workspace are device memory of its shape.
using RunMatmul = std::function<Status(const cublasLtMatmulAlgo_t& algorithm, std::uint64_t workspace_bytes,
                                       std::span<const runtime::BufferView, 5> memory)>;
/// What cuBLASLt says of an algorithm of an earlier process: whether it serves this product here.
using CheckMatmul =
    std::function<bool(const cublasLtMatmulAlgo_t& algorithm, std::uint64_t& workspace_bytes)>;

/// What cuBLASLt recommends for the product, best first, one or more. Errors: Declined (nothing).
using FindMatmuls = std::function<Result<std::vector<cublasLtMatmulHeuristicResult_t>>()>;

/// The fastest of `find`, among those that give the bits of the first on random operands: which one it is
/// changes no result. Each runs several times in turn with the others, so that a GPU that slows down does so
/// for all; of a large product those that come close run again for so long that the GPU is at its limit of
/// power. The first, unmeasured, where the product is small or its operands do not fit into memory a second
/// time. Known from the cache folder when the same product was chosen for on this device with this library:
/// then cuBLASLt is not asked, which would load the kernels of all that it looks at.
///
/// With a wish: the one of that rank, whatever its bits (InvalidInput where there is none), or the fastest of
/// a measurement as it is asked for, which is made in any case.
Result<MatmulChoice> choose_matmul(CudaDevice& device, const MatmulShape& shape, const MatmulWish& wish,
                                   const std::string& library, const FindMatmuls& find, const RunMatmul& run,
                                   const CheckMatmul& check);

}  // namespace dif::cuda
