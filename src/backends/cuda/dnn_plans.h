#pragma once

#include <map>
#include <memory>
#include <string>

#include "backends/cuda/cudnn_graph.h"
#include "backends/cuda/device_list.h"
#include "io/cache_store.h"

namespace dif::cuda {

class CudaDevice;

/// cuDNN on one device, and the plans that were found there. Finding one takes tens of milliseconds: kernels
/// of one shape share it while one of them lives, and the cache keeps it for the next process, compiled
/// kernel included.
class DnnPlans {
 public:
  /// Work goes to `stream`. `cache` outlives the result. Errors: Declined (cuDNN refuses).
  static Result<std::unique_ptr<DnnPlans>> create(const DnnLibrary& library, CUstream stream,
                                                  const DeviceFacts& facts, int driver_version,
                                                  io::CacheStore& cache);
  DnnPlans(const DnnPlans&) = delete;
  DnnPlans& operator=(const DnnPlans&) = delete;
  ~DnnPlans();

  /// As build_attention and build_convolution; with AttentionHeuristic::kAutotune as fastest_attention.
  Result<std::shared_ptr<DnnGraph>> attention(CudaDevice& device, const AttentionShape& shape);
  Result<std::shared_ptr<DnnGraph>> convolution(const ConvolutionShape& shape);

 private:
  DnnPlans(void* handle, io::CacheKey base, io::CacheStore& cache)
      : handle_(handle), base_(std::move(base)), cache_(cache) {}
  template <class Build>
  Result<std::shared_ptr<DnnGraph>> find(const io::CacheKey& key, Build build);

  void* handle_;
  io::CacheKey base_;  ///< what every plan depends on
  io::CacheStore& cache_;
  std::map<std::string, std::weak_ptr<DnnGraph>> graphs_;  ///< by the key of its entry
};

}  // namespace dif::cuda
