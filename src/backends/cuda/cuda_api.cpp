#include "backends/cuda/cuda_api.h"

#include <dlfcn.h>

#include <filesystem>
#include <utility>

namespace dif::cuda {

namespace {

// Functions are renamed by their headers when their parameters change (cuMemAlloc is cuMemAlloc_v2); the name
// to look for is the one that the macro leaves.
#define DIF_CUDA_TEXT(name) #name
#define DIF_CUDA_RESOLVE(name)                                                                \
  api.name = reinterpret_cast<decltype(&::name)>(dlsym(library.handle, DIF_CUDA_TEXT(name))); \
  if (api.name == nullptr) missing += (missing.empty() ? "" : ", ") + std::string(DIF_CUDA_TEXT(name));

Status all_found(const char* what, const std::string& file, const std::string& missing) {
  if (missing.empty()) return ok();
  return fail(ErrorCode::kUnavailable, "{} ({}) is too old: it lacks {}; install a newer one", file, what,
              missing);
}

Result<DriverApi> open_driver() {
  DIF_ASSIGN(const OpenLibrary library,
             open_library({"NVIDIA's driver", "DIF_CUDA_DRIVER_PATH", {"libcuda.so.1"}}));
  DriverApi api;
  std::string missing;
  DIF_CUDA_DRIVER_FUNCTIONS(DIF_CUDA_RESOLVE)
  DIF_TRY(all_found("NVIDIA's driver", library.file, missing));
  api.file = library.file;
  const CUresult init = api.cuInit(0);
  if (api.cuDriverGetVersion(&api.version) != CUDA_SUCCESS) api.version = 0;
  DIF_TRY(check_driver(init, api.version, api.file));
  return api;
}

Result<CompilerApi> open_compiler() {
  DIF_ASSIGN(const OpenLibrary library,
             open_library(
                 {"NVRTC, which compiles kernels,", "DIF_NVRTC_PATH", {"libnvrtc.so.13", "libnvrtc.so.12"}}));
  CompilerApi api;
  std::string missing;
  DIF_CUDA_COMPILER_FUNCTIONS(DIF_CUDA_RESOLVE)
  DIF_TRY(all_found("NVRTC", library.file, missing));
  api.file = library.file;
  api.nvrtcVersion(&api.major, &api.minor);
  return api;
}

Result<MatmulApi> open_matmul() {
  DIF_ASSIGN(const OpenLibrary library, open_library({"cuBLASLt, which multiplies matrices,",
                                                      "DIF_CUBLASLT_PATH",
                                                      {"libcublasLt.so.13", "libcublasLt.so.12"}}));
  MatmulApi api;
  std::string missing;
  DIF_CUDA_MATMUL_FUNCTIONS(DIF_CUDA_RESOLVE)
  DIF_TRY(all_found("cuBLASLt", library.file, missing));
  api.file = library.file;
  const std::size_t version = api.cublasLtGetVersion();
  api.version = fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
  return api;
}

Result<DnnLibrary> open_dnn() {
  // cuDNN and its frontend open these by their names; what is open already is what they get.
  (void)CompilerApi::load();
  (void)MatmulApi::load();
  (void)open_library({"CUDA's runtime", "DIF_CUDART_PATH", {"libcudart.so.13", "libcudart.so.12"}});
  DIF_ASSIGN(
      const OpenLibrary library,
      open_library({"cuDNN, which does attention and convolutions,", "DIF_CUDNN_PATH", {"libcudnn.so.9"}}));
  DnnLibrary dnn = {library.handle, library.file, ""};
  using Version = std::size_t();
  auto* const version = reinterpret_cast<Version*>(dlsym(library.handle, "cudnnGetVersion"));
  if (version == nullptr)
    return fail(ErrorCode::kUnavailable, "{} is no cuDNN: it lacks cudnnGetVersion", library.file);
  const std::size_t number = version();
  dnn.version = fmt::format("{}.{}.{}", number / 10000, number / 100 % 100, number % 100);
  return dnn;
}

#undef DIF_CUDA_RESOLVE
#undef DIF_CUDA_TEXT

/// One attempt a process.
template <class Api, Result<Api> (*kOpen)()>
Result<const Api*> once() {
  static const Result<Api> api = kOpen();
  if (!api) return tl::unexpected<Error>(api.error());
  return &*api;
}

}  // namespace

Result<const DriverApi*> DriverApi::load() {
  return once<DriverApi, open_driver>();
}

Result<const CompilerApi*> CompilerApi::load() {
  return once<CompilerApi, open_compiler>();
}

Result<const MatmulApi*> MatmulApi::load() {
  return once<MatmulApi, open_matmul>();
}

Result<const DnnLibrary*> DnnLibrary::load() {
  return once<DnnLibrary, open_dnn>();
}

void DnnLibrary::open_parts() {
  const auto library = load();
  if (!library) return;
  const std::filesystem::path folder = std::filesystem::path((*library)->file).parent_path();
  for (const char* part : {"libcudnn_graph.so.9", "libcudnn_engines_precompiled.so.9",
                           "libcudnn_heuristic.so.9", "libcudnn_engines_runtime_compiled.so.9"})
    (void)dlopen((folder / part).c_str(), RTLD_NOW | RTLD_LOCAL);
}

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

Status check_driver(CUresult init, int driver_version, const std::string& file) {
  switch (init) {
    case CUDA_SUCCESS:
      break;
    case CUDA_ERROR_NO_DEVICE:
      return fail(ErrorCode::kUnavailable,
                  "NVIDIA's driver ({}) sees no GPU; look at nvidia-smi and CUDA_VISIBLE_DEVICES", file);
    case CUDA_ERROR_STUB_LIBRARY:
      return fail(ErrorCode::kUnavailable,
                  "{} is the toolkit's stand-in, not NVIDIA's driver; name the driver's libcuda.so.1 in "
                  "DIF_CUDA_DRIVER_PATH",
                  file);
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
      return fail(ErrorCode::kUnavailable,
                  "{} and the kernel module of NVIDIA's driver are of different versions; load the module "
                  "anew or restart the machine",
                  file);
    default:
      return fail(ErrorCode::kUnavailable,
                  "NVIDIA's driver ({}) does not start: error {}; look at nvidia-smi", file,
                  static_cast<int>(init));
  }
  if (driver_version < kLeastDriver)
    return fail(ErrorCode::kUnavailable,
                "NVIDIA's driver ({}) is for CUDA {}, needed is {} or newer; install a newer driver", file,
                version_text(driver_version), version_text(kLeastDriver));
  return ok();
}

Status check_capability(const std::string& device, int capability) {
  if (capability >= kLeastCapability) return ok();
  return fail(ErrorCode::kUnavailable,
              "{} has compute capability {}.{}, needed is {}.{} or newer (Ampere); choose another --backend",
              device, capability / 10, capability % 10, kLeastCapability / 10, kLeastCapability % 10);
}

Status DriverApi::checked(const char* call, CUresult code) const {
  if (code == CUDA_SUCCESS) return ok();
  const char *name = nullptr, *text = nullptr;
  cuGetErrorName(code, &name);
  cuGetErrorString(code, &text);
  const std::string said =
      fmt::format("{}: {}", name == nullptr ? "unknown error" : name, text == nullptr ? "" : text);
  switch (code) {
    case CUDA_ERROR_OUT_OF_MEMORY:
      return fail(ErrorCode::kOutOfMemory, "the GPU has no memory left ({} says {})", call, said);
    case CUDA_ERROR_INVALID_VALUE:
    case CUDA_ERROR_INVALID_HANDLE:
    case CUDA_ERROR_NOT_FOUND:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES:
      return fail(ErrorCode::kInternal, "{} failed with {}", call, said);
    default:
      return fail(ErrorCode::kUnavailable, "the GPU cannot go on ({} says {})", call, said);
  }
}

Status MatmulApi::checked(const char* call, cublasStatus_t code) const {
  if (code == CUBLAS_STATUS_SUCCESS) return ok();
  return fail(code == CUBLAS_STATUS_ALLOC_FAILED ? ErrorCode::kOutOfMemory : ErrorCode::kInternal,
              "{} failed with {}", call, cublasLtGetStatusString(code));
}

}  // namespace dif::cuda
