/// NVIDIA's driver and NVRTC in one library, for a machine without a GPU: it accepts everything and computes
/// nothing (a picture of it is one colour), and has the bad day that DIF_TEST_CUDA asks for: words NAME or
/// NAME=NUMBER with blanks between. What a process still holds when it gives the context back, or when it
/// ends without that, is said on stderr in a line with "leaked".
#include <cuda.h>
#include <nvrtc.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <sstream>
#include <string>

namespace {

constexpr std::size_t kMiB = 1 << 20;

/// The number of a word of DIF_TEST_CUDA: 1 where it has none, `otherwise` where it is not there.
long asked(const std::string& name, long otherwise = 0) {
  const char* value = std::getenv("DIF_TEST_CUDA");
  std::istringstream words(value == nullptr ? "" : value);
  for (std::string word; words >> word;) {
    if (word == name) return 1;
    if (word.rfind(name + "=", 0) == 0) return std::atol(word.c_str() + name.size() + 1);
  }
  return otherwise;
}

struct State {
  std::mutex mutex;
  std::map<CUdeviceptr, std::size_t> memory;  ///< of the device; calloc's
  std::size_t used = 0;
  long allocations = 0;
  std::atomic<long> launches = 0, contexts = 0, others = 0;  ///< others: streams, events, pinned memory, ...

  ~State() {
    if (contexts != 0) std::fprintf(stderr, "leaked: the context is still held\n");
  }
} g_state;

bool lost() {
  static const long last = asked("lost", 1L << 40);
  return g_state.launches > last;
}

CUresult alive() {
  return lost() ? CUDA_ERROR_ECC_UNCORRECTABLE : CUDA_SUCCESS;
}

/// Something that must be destroyed.
template <class Handle>
CUresult make(Handle* handle) {
  if (lost()) return alive();
  *handle = reinterpret_cast<Handle>(++g_state.others);
  return CUDA_SUCCESS;
}

CUresult destroy() {
  --g_state.others;
  return alive();
}

std::size_t total() {
  return static_cast<std::size_t>(asked("memory", 4096)) * kMiB;
}

/// "others=N": after N allocations another process takes what is left.
bool taken() {
  static const long last = asked("others", 1L << 40);
  return g_state.allocations >= last;
}

/// The kernel that looks for NaN, told apart from the others.
CUfunction const g_look = reinterpret_cast<CUfunction>(2);

}  // namespace

extern "C" {

CUresult cuInit(unsigned) {
  return static_cast<CUresult>(asked("init"));
}
CUresult cuDriverGetVersion(int* version) {
  *version = static_cast<int>(asked("driver", 13000));
  return CUDA_SUCCESS;
}
CUresult cuGetErrorName(CUresult code, const char** name) {
  *name = code == CUDA_ERROR_ECC_UNCORRECTABLE ? "CUDA_ERROR_ECC_UNCORRECTABLE" : "CUDA_ERROR";
  return CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult, const char** text) {
  *text = "what the stand-in was asked for";
  return CUDA_SUCCESS;
}

// --- devices ---------------------------------------------------------------------------------------------

CUresult cuDeviceGetCount(int* count) {
  *count = static_cast<int>(asked("devices", 1));
  return CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice* device, int index) {
  *device = index;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetName(char* name, int size, CUdevice) {
  std::snprintf(name, static_cast<std::size_t>(size), "Stand-in");
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice) {
  const int capability = static_cast<int>(asked("capability", 90));
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      *value = capability / 10;
      break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      *value = capability % 10;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      *value = 227 << 10;
      break;
    default:
      *value = 1024;
  }
  return CUDA_SUCCESS;
}
CUresult cuDeviceTotalMem(std::size_t* bytes, CUdevice) {
  *bytes = total();
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice) {
  *uuid = {};
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice) {
  *context = reinterpret_cast<CUcontext>(1);
  ++g_state.contexts;
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRelease(CUdevice) {
  --g_state.contexts;
  const long others = g_state.others + asked("one-is-forgotten");
  if (others != 0 || !g_state.memory.empty())
    std::fprintf(stderr, "leaked: %zu allocations, %ld other objects\n", g_state.memory.size(), others);
  return alive();
}
CUresult cuCtxSetCurrent(CUcontext) {
  return CUDA_SUCCESS;
}

// --- memory ----------------------------------------------------------------------------------------------

CUresult cuMemGetInfo(std::size_t* free, std::size_t* all) {
  const std::lock_guard lock(g_state.mutex);
  *all = total();
  *free = taken() ? 0 : total() - g_state.used;
  return alive();
}
CUresult cuMemAlloc(CUdeviceptr* address, std::size_t bytes) {
  const std::lock_guard lock(g_state.mutex);
  if (lost()) return alive();
  if (taken() || bytes > total() - g_state.used) return CUDA_ERROR_OUT_OF_MEMORY;
  ++g_state.allocations;
  void* const memory = std::calloc(1, bytes);
  if (memory == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  *address = reinterpret_cast<CUdeviceptr>(memory);
  g_state.memory[*address] = bytes;
  g_state.used += bytes;
  return CUDA_SUCCESS;
}
CUresult cuMemFree(CUdeviceptr address) {
  const std::lock_guard lock(g_state.mutex);
  const auto found = g_state.memory.find(address);
  if (found == g_state.memory.end()) return CUDA_ERROR_INVALID_VALUE;
  g_state.used -= found->second;
  g_state.memory.erase(found);
  std::free(reinterpret_cast<void*>(address));
  return alive();
}
CUresult cuMemHostAlloc(void** memory, std::size_t bytes, unsigned) {
  if (lost()) return alive();
  *memory = std::calloc(1, bytes);
  if (*memory == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  ++g_state.others;
  return CUDA_SUCCESS;
}
CUresult cuMemFreeHost(void* memory) {
  std::free(memory);
  return destroy();
}
CUresult cuMemHostRegister(void*, std::size_t, unsigned) {
  if (lost()) return alive();
  ++g_state.others;
  return CUDA_SUCCESS;
}
CUresult cuMemHostUnregister(void*) {
  return destroy();
}
CUresult cuMemHostGetDevicePointer(CUdeviceptr* address, void* memory, unsigned) {
  *address = reinterpret_cast<CUdeviceptr>(memory);
  return alive();
}
CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, std::size_t bytes, CUstream) {
  std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  return alive();
}
CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, std::size_t bytes, CUstream) {
  std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
  return alive();
}
CUresult cuMemcpyDtoDAsync(CUdeviceptr, CUdeviceptr, std::size_t, CUstream) {
  return alive();
}
CUresult cuMemsetD32Async(CUdeviceptr, unsigned, std::size_t, CUstream) {
  return alive();
}

// --- order -----------------------------------------------------------------------------------------------

CUresult cuStreamCreate(CUstream* stream, unsigned) {
  return make(stream);
}
CUresult cuStreamDestroy(CUstream) {
  return destroy();
}
CUresult cuStreamSynchronize(CUstream) {
  return alive();
}
CUresult cuStreamWaitEvent(CUstream, CUevent, unsigned) {
  return alive();
}
CUresult cuStreamBeginCapture(CUstream, CUstreamCaptureMode) {
  return alive();
}
CUresult cuStreamEndCapture(CUstream, CUgraph* graph) {
  return make(graph);
}
CUresult cuGraphInstantiateWithFlags(CUgraphExec* executable, CUgraph, unsigned long long) {
  return make(executable);
}
CUresult cuGraphLaunch(CUgraphExec, CUstream) {
  ++g_state.launches;
  return alive();
}
CUresult cuGraphExecDestroy(CUgraphExec) {
  return destroy();
}
CUresult cuGraphDestroy(CUgraph) {
  return destroy();
}
CUresult cuGraphGetNodes(CUgraph, CUgraphNode*, std::size_t* count) {
  *count = 1;
  return alive();
}
CUresult cuEventCreate(CUevent* event, unsigned) {
  return make(event);
}
CUresult cuEventDestroy(CUevent) {
  return destroy();
}
CUresult cuEventRecord(CUevent, CUstream) {
  return alive();
}
CUresult cuEventSynchronize(CUevent) {
  return alive();
}
CUresult cuEventElapsedTime(float* milliseconds, CUevent, CUevent) {
  *milliseconds = 1;
  return alive();
}

// --- code ------------------------------------------------------------------------------------------------

CUresult cuModuleLoadData(CUmodule* module, const void*) {
  return make(module);
}
CUresult cuModuleUnload(CUmodule) {
  return destroy();
}
CUresult cuModuleGetFunction(CUfunction* function, CUmodule, const char* name) {
  *function = std::strcmp(name, "look") == 0 ? g_look : reinterpret_cast<CUfunction>(1);
  return alive();
}
CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute, int) {
  return alive();
}
CUresult cuTensorMapEncodeTiled(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,
                                const cuuint64_t*, const cuuint32_t*, const cuuint32_t*,
                                CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion,
                                CUtensorMapFloatOOBfill) {
  return alive();
}
CUresult cuLaunchKernel(CUfunction function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                        unsigned, CUstream, void** arguments, void**) {
  ++g_state.launches;
  if (function == g_look && asked("nan") != 0) **static_cast<std::uint64_t**>(arguments[2]) = 0;
  return alive();
}

// --- NVRTC -----------------------------------------------------------------------------------------------

nvrtcResult nvrtcVersion(int* major, int* minor) {
  *major = static_cast<int>(asked("nvrtc", 13));
  *minor = 0;
  return NVRTC_SUCCESS;
}
const char* nvrtcGetErrorString(nvrtcResult) {
  return "NVRTC_ERROR_COMPILATION";
}
nvrtcResult nvrtcCreateProgram(nvrtcProgram* program, const char*, const char*, int, const char* const*,
                               const char* const*) {
  *program = reinterpret_cast<nvrtcProgram>(1);
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcDestroyProgram(nvrtcProgram*) {
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcCompileProgram(nvrtcProgram, int, const char* const*) {
  if (asked("compiler-too-old") != 0) return NVRTC_ERROR_INVALID_OPTION;
  return asked("no-compile") != 0 ? NVRTC_ERROR_COMPILATION : NVRTC_SUCCESS;
}
constexpr char kLog[] =
    "kernel.cu(3): warning #1: a line before\n\n"
    "kernel.cu(7): error: identifier \"oops\" is undefined\n  oops\n  ^\n\n"
    "1 error detected in the compilation of \"kernel.cu\".\n";
nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram, std::size_t* size) {
  *size = sizeof(kLog);
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetProgramLog(nvrtcProgram, char* log) {
  std::memcpy(log, kLog, sizeof(kLog));
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetCUBINSize(nvrtcProgram, std::size_t* size) {
  *size = 4;
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetCUBIN(nvrtcProgram, char* binary) {
  std::memcpy(binary, "code", 4);
  return NVRTC_SUCCESS;
}

}  // extern "C"
