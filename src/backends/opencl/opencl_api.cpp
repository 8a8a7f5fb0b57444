#include "backends/opencl/opencl_api.h"

#include <dlfcn.h>

#include <cstdlib>
#include <utility>

namespace dif::opencl {

namespace {

Result<OpenClApi> open_loader() {
  const char* chosen = std::getenv("DIF_OPENCL_PATH");
  const bool named = chosen != nullptr && *chosen != '\0';
  OpenClApi api;
  api.library = named ? chosen : "libOpenCL.so.1";
  void* const handle = dlopen(api.library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr)
    return fail(ErrorCode::kUnavailable, "the OpenCL loader cannot be opened ({}); {}", dlerror(),
                named ? "DIF_OPENCL_PATH must name a libOpenCL.so.1"
                      : "install one (Debian: ocl-icd-libopencl1) or name it in DIF_OPENCL_PATH");
  std::string missing;
#define DIF_OPENCL_FUNCTION(name)                                       \
  api.name = reinterpret_cast<decltype(&::name)>(dlsym(handle, #name)); \
  if (api.name == nullptr) missing += missing.empty() ? #name : ", " #name;
#include "backends/opencl/opencl_functions.def"
#undef DIF_OPENCL_FUNCTION
  if (!missing.empty())
    return fail(ErrorCode::kUnavailable, "{} is no OpenCL 1.2 loader: it lacks {}", api.library, missing);
  return api;  // the library stays open for the life of the process: drivers do not stand being unloaded
}

}  // namespace

Result<const OpenClApi*> OpenClApi::load() {
  static const Result<OpenClApi> api = open_loader();
  if (!api) return tl::unexpected<Error>(api.error());
  return &*api;
}

std::string code_text(cl_int code) {
  static constexpr std::pair<cl_int, const char*> kNames[] = {
      {CL_DEVICE_NOT_FOUND, "CL_DEVICE_NOT_FOUND"},
      {CL_DEVICE_NOT_AVAILABLE, "CL_DEVICE_NOT_AVAILABLE"},
      {CL_COMPILER_NOT_AVAILABLE, "CL_COMPILER_NOT_AVAILABLE"},
      {CL_MEM_OBJECT_ALLOCATION_FAILURE, "CL_MEM_OBJECT_ALLOCATION_FAILURE"},
      {CL_OUT_OF_RESOURCES, "CL_OUT_OF_RESOURCES"},
      {CL_OUT_OF_HOST_MEMORY, "CL_OUT_OF_HOST_MEMORY"},
      {CL_BUILD_PROGRAM_FAILURE, "CL_BUILD_PROGRAM_FAILURE"},
      {CL_INVALID_VALUE, "CL_INVALID_VALUE"},
      {CL_INVALID_DEVICE, "CL_INVALID_DEVICE"},
      {CL_INVALID_MEM_OBJECT, "CL_INVALID_MEM_OBJECT"},
      {CL_INVALID_BINARY, "CL_INVALID_BINARY"},
      {CL_INVALID_KERNEL_NAME, "CL_INVALID_KERNEL_NAME"},
      {CL_INVALID_KERNEL_ARGS, "CL_INVALID_KERNEL_ARGS"},
      {CL_INVALID_ARG_INDEX, "CL_INVALID_ARG_INDEX"},
      {CL_INVALID_ARG_SIZE, "CL_INVALID_ARG_SIZE"},
      {CL_INVALID_WORK_GROUP_SIZE, "CL_INVALID_WORK_GROUP_SIZE"},
      {CL_INVALID_BUFFER_SIZE, "CL_INVALID_BUFFER_SIZE"},
  };
  for (const auto& [known, name] : kNames)
    if (known == code) return name;
  return fmt::format("error {}", code);
}

tl::unexpected<Error> call_failed(std::string_view call, cl_int code) {
  const bool memory = code == CL_MEM_OBJECT_ALLOCATION_FAILURE || code == CL_OUT_OF_HOST_MEMORY;
  const bool gone = code == CL_DEVICE_NOT_AVAILABLE || code == CL_OUT_OF_RESOURCES;
  return fail(memory ? ErrorCode::kOutOfMemory
              : gone ? ErrorCode::kUnavailable
                     : ErrorCode::kInternal,
              "{} failed with {}", call, code_text(code));
}

}  // namespace dif::opencl
