#pragma once

#include <cublasLt.h>
#include <cuda.h>
#include <nvrtc.h>

#include <string>
#include <string_view>

#include "backends/cuda/library_search.h"
#include "base/error.h"

/// The functions of NVIDIA's libraries that this backend calls: found at run time, so that nothing links
/// them. The driver and NVRTC are needed; without cuBLASLt or cuDNN the kernels that use them decline.
namespace dif::cuda {

// clang-format off
#define DIF_CUDA_DRIVER_FUNCTIONS(DO)  \
  DO(cuInit)                           \
  DO(cuDriverGetVersion)               \
  DO(cuGetErrorName)                   \
  DO(cuGetErrorString)                 \
  DO(cuDeviceGetCount)                 \
  DO(cuDeviceGet)                      \
  DO(cuDeviceGetName)                  \
  DO(cuDeviceGetAttribute)             \
  DO(cuDeviceTotalMem)                 \
  DO(cuDeviceGetUuid)                  \
  DO(cuDevicePrimaryCtxRetain)         \
  DO(cuDevicePrimaryCtxRelease)        \
  DO(cuCtxSetCurrent)                  \
  DO(cuMemGetInfo)                     \
  DO(cuMemAlloc)                       \
  DO(cuMemFree)                        \
  DO(cuMemHostAlloc)                   \
  DO(cuMemFreeHost)                    \
  DO(cuMemHostRegister)                \
  DO(cuMemHostUnregister)              \
  DO(cuMemHostGetDevicePointer)        \
  DO(cuMemcpyHtoDAsync)                \
  DO(cuMemcpyDtoHAsync)                \
  DO(cuMemcpyDtoDAsync)                \
  DO(cuMemsetD32Async)                 \
  DO(cuStreamCreate)                   \
  DO(cuStreamDestroy)                  \
  DO(cuStreamSynchronize)              \
  DO(cuStreamWaitEvent)                \
  DO(cuStreamBeginCapture)             \
  DO(cuStreamEndCapture)               \
  DO(cuGraphInstantiateWithFlags)      \
  DO(cuGraphLaunch)                    \
  DO(cuGraphExecDestroy)               \
  DO(cuGraphDestroy)                   \
  DO(cuGraphGetNodes)                  \
  DO(cuEventCreate)                    \
  DO(cuEventDestroy)                   \
  DO(cuEventRecord)                    \
  DO(cuEventSynchronize)               \
  DO(cuEventElapsedTime)               \
  DO(cuModuleLoadData)                 \
  DO(cuModuleUnload)                   \
  DO(cuModuleGetFunction)              \
  DO(cuFuncSetAttribute)               \
  DO(cuLaunchKernel)                   \
  DO(cuTensorMapEncodeTiled)

#define DIF_CUDA_COMPILER_FUNCTIONS(DO)  \
  DO(nvrtcVersion)                       \
  DO(nvrtcGetErrorString)                \
  DO(nvrtcCreateProgram)                 \
  DO(nvrtcDestroyProgram)                \
  DO(nvrtcCompileProgram)                \
  DO(nvrtcGetProgramLogSize)             \
  DO(nvrtcGetProgramLog)                 \
  DO(nvrtcGetCUBINSize)                  \
  DO(nvrtcGetCUBIN)

#define DIF_CUDA_MATMUL_FUNCTIONS(DO)       \
  DO(cublasLtCreate)                        \
  DO(cublasLtDestroy)                       \
  DO(cublasLtGetVersion)                    \
  DO(cublasLtGetStatusString)               \
  DO(cublasLtMatmulDescCreate)              \
  DO(cublasLtMatmulDescDestroy)             \
  DO(cublasLtMatmulDescSetAttribute)        \
  DO(cublasLtMatrixLayoutCreate)            \
  DO(cublasLtMatrixLayoutDestroy)           \
  DO(cublasLtMatrixLayoutSetAttribute)      \
  DO(cublasLtMatmulPreferenceCreate)        \
  DO(cublasLtMatmulPreferenceDestroy)       \
  DO(cublasLtMatmulPreferenceSetAttribute)  \
  DO(cublasLtMatmulAlgoGetHeuristic)        \
  DO(cublasLtMatmulAlgoCheck)               \
  DO(cublasLtMatmulAlgoConfigGetAttribute)  \
  DO(cublasLtMatmul)
// clang-format on

#define DIF_CUDA_MEMBER(name) decltype(&::name) name = nullptr;

struct DriverApi {
  DIF_CUDA_DRIVER_FUNCTIONS(DIF_CUDA_MEMBER)
  std::string file;
  int version = 0;  ///< 13000 = CUDA 13.0

  /// Opened and initialised once a process. Errors: Unavailable (no driver, one too old, no GPU).
  static Result<const DriverApi*> load();
  /// The error of a failed call, in the class that the code belongs to; ok for CUDA_SUCCESS.
  Status checked(const char* call, CUresult code) const;
};

struct CompilerApi {
  DIF_CUDA_COMPILER_FUNCTIONS(DIF_CUDA_MEMBER)
  std::string file;
  int major = 0, minor = 0;

  static Result<const CompilerApi*> load();
};

struct MatmulApi {
  DIF_CUDA_MATMUL_FUNCTIONS(DIF_CUDA_MEMBER)
  std::string file;
  std::string version;

  static Result<const MatmulApi*> load();
  Status checked(const char* call, cublasStatus_t code) const;
};

#undef DIF_CUDA_MEMBER

/// cuDNN, whose functions cudnn-frontend finds by itself (cudnn_graph.cpp). Opens what it opens by name
/// first.
struct DnnLibrary {
  void* handle = nullptr;
  std::string file;
  std::string version;

  static Result<const DnnLibrary*> load();
  /// Opens the libraries behind it, which it would open itself when it is first asked for a plan.
  static void open_parts();
};

/// The oldest driver and the least compute capability that this backend runs on.
inline constexpr int kLeastDriver = 12000;
inline constexpr int kLeastCapability = 80;

/// "13.0" of 13000.
std::string version_text(int version);

/// Why a driver that loads cannot be used; each sentence says what to do. `init` is what cuInit returned.
Status check_driver(CUresult init, int driver_version, const std::string& file);
/// Whether code for `capability` (90 = 9.0) can be made and run. Errors: Unavailable.
Status check_capability(const std::string& device, int capability);

}  // namespace dif::cuda
