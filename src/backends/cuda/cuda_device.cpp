#include "backends/cuda/cuda_device.h"

#include <algorithm>
#include <cstring>
#include <future>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "backends/cuda/compiler.h"
#include "backends/cuda/dnn_plans.h"
#include "base/checked_math.h"
#include "base/parallel.h"

namespace dif::cuda {

namespace {

/// Allocations of at least this size are cuMemAlloc's own, in its pages of 2 MiB; smaller ones share a page.
constexpr std::uint64_t kPageBytes = 2 << 20;
constexpr std::uint64_t kLargeBytes = 256 << 10;
constexpr std::uint64_t kAlignment = 256;

constexpr std::size_t kStagings = 2;
constexpr std::uint64_t kStagingBytes = 8 << 20;

constexpr std::size_t kReportWords = 4096;

/// What cuDNN and cuBLASLt may still load once a run needs their kernels.
constexpr std::uint64_t kLibraryReserveBytes = 192 << 20;

/// What a context may cost at most: where other processes hold memory too, theirs is not told apart.
constexpr std::uint64_t kMostContextBytes = 1ULL << 30;

CUdeviceptr address(runtime::BufferView view) {
  return reinterpret_cast<CUdeviceptr>(view.pointer());
}

runtime::BufferView view_of(CUdeviceptr address) {
  return {reinterpret_cast<void*>(address), 0};
}

/// Beside several threads where it pays: one core fills a fraction of what the bus takes.
void copy_on_host(void* to, const void* from, std::uint64_t bytes) {
  constexpr std::uint64_t kPiece = 1 << 20;
  constexpr std::size_t kMostThreads = 8;
  parallel_for(static_cast<std::size_t>(ceil_div(static_cast<std::int64_t>(bytes), kPiece)), kMostThreads,
               [&](std::size_t i) {
                 const std::uint64_t begin = i * kPiece;
                 std::memcpy(static_cast<std::byte*>(to) + begin, static_cast<const std::byte*>(from) + begin,
                             std::min(kPiece, bytes - begin));
               });
}

}  // namespace

/// One page of small allocations, handed out front to back; empty again once all of them are gone.
struct CudaDevice::Slab {
  CUdeviceptr start = 0;
  std::uint64_t used = 0, live = 0;
};

/// Pinned memory through which bytes go to the device; `done` says when it may be written again.
struct CudaDevice::Staging {
  void* memory = nullptr;
  CUevent done = nullptr;
};

/// A text that is compiled or loaded; its binary comes from another thread.
struct KernelModule {
  std::future<Result<std::vector<std::byte>>> binary;
  std::optional<io::CacheKey> key;  ///< under which a new binary is kept
  CUmodule handle = nullptr;
  bool loaded = false;
};

/// A recorded run.
class GraphRecording final : public runtime::Recording {
 public:
  GraphRecording(CudaDevice& device, CUgraphExec graph) : device_(device), graph_(graph) {}
  ~GraphRecording() override { device_.driver_.cuGraphExecDestroy(graph_); }
  Status replay() override {
    ++device_.counters_.graph_launches;
    return device_.driver_.checked("cuGraphLaunch", device_.driver_.cuGraphLaunch(graph_, device_.stream_));
  }

 private:
  CudaDevice& device_;
  CUgraphExec graph_;
};

Status CudaKernel::find_function() const {
  constexpr unsigned kWithoutAsking = 48 << 10;
  const DriverApi& driver = device_->driver_;
  DIF_TRY(device_->load(*module_));
  DIF_TRY(
      driver.checked("cuModuleGetFunction", driver.cuModuleGetFunction(&function_, module_->handle, name_)));
  if (shared_bytes_ <= kWithoutAsking) return ok();
  return driver.checked("cuFuncSetAttribute",
                        driver.cuFuncSetAttribute(function_, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                                  static_cast<int>(shared_bytes_)));
}

Status CudaKernel::launch(Extent blocks, std::span<const Argument> arguments) const {
  if (blocks.x == 0 || blocks.y == 0 || blocks.z == 0) return ok();
  if (function_ == nullptr) DIF_TRY(find_function());
  std::vector<std::uint64_t> values(arguments.size());
  std::vector<void*> pointers(arguments.size());
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    pointers[i] = &values[i];
    std::visit(
        [&](const auto& argument) {
          using T = std::decay_t<decltype(argument)>;
          if constexpr (std::is_same_v<T, runtime::BufferView>)
            values[i] = address(argument);
          else if constexpr (std::is_same_v<T, const CUtensorMap*>)
            pointers[i] = const_cast<CUtensorMap*>(argument);
          else
            std::memcpy(&values[i], &argument, sizeof(argument));
        },
        arguments[i]);
  }
  ++device_->counters_.launches;
  return device_->driver_.checked(
      "cuLaunchKernel", device_->driver_.cuLaunchKernel(
                            function_, static_cast<unsigned>(blocks.x), static_cast<unsigned>(blocks.y),
                            static_cast<unsigned>(blocks.z), threads_, 1, 1, shared_bytes_, device_->stream_,
                            pointers.data(), nullptr));
}

CudaDevice::CudaDevice(const DriverApi& driver, const CompilerApi& compiler, DeviceFacts facts,
                       const runtime::DeviceOptions& options)
    : driver_(driver),
      compiler_(compiler),
      facts_(std::move(facts)),
      cap_bytes_(options.cap_bytes),
      least_free_bytes_(options.least_free_bytes),
      log_(options.log),
      cache_(options.cache_folder, [this](std::string_view sentence) {
        if (log_) log_(DIF_LOG_WARNING, std::string(sentence));
      }) {}

namespace {

/// What the first product and the first convolution would wait for, on a thread of its own: loading these
/// libraries takes as long as making the context.
std::future<void> open_libraries() {
  try {
    return std::async(std::launch::async, DnnLibrary::open_parts);
  } catch (const std::system_error&) {  // no more threads: they are opened when they are needed
    return {};
  }
}

}  // namespace

Result<std::unique_ptr<runtime::Device>> CudaDevice::create(const runtime::DeviceOptions& options) {
  DIF_ASSIGN(const DriverApi* driver, DriverApi::load());
  DIF_ASSIGN(DeviceFacts facts, find_device(*driver, options.device));
  DIF_TRY(check_capability(facts.name, facts.capability));
  DIF_ASSIGN(const CompilerApi* compiler, CompilerApi::load());
  if (compiler->major * 1000 > driver->version)
    return fail(
        ErrorCode::kUnavailable,
        "NVRTC {}.{} ({}) is newer than NVIDIA's driver, which is for CUDA {}; install a newer driver, "
        "or name an older NVRTC in DIF_NVRTC_PATH",
        compiler->major, compiler->minor, compiler->file, version_text(driver->version));
  std::future<void> opening = open_libraries();
  DIF_ASSIGN(auto device, create(*driver, *compiler, std::move(facts), options));
  device->opening_ = std::move(opening);
  return device;
}

Result<std::unique_ptr<CudaDevice>> CudaDevice::create(const DriverApi& driver, const CompilerApi& compiler,
                                                       DeviceFacts facts,
                                                       const runtime::DeviceOptions& options) {
  auto device = std::unique_ptr<CudaDevice>(new CudaDevice(driver, compiler, std::move(facts), options));
  DIF_TRY(device->open());
  return device;
}

Status CudaDevice::open() {
  DIF_TRY(driver_.checked("cuDevicePrimaryCtxRetain",
                          driver_.cuDevicePrimaryCtxRetain(&context_, facts_.handle)));
  DIF_TRY(begin_run());
  std::size_t free = 0, total = 0;
  DIF_TRY(driver_.checked("cuMemGetInfo", driver_.cuMemGetInfo(&free, &total)));
  DIF_TRY(hold(std::min<std::uint64_t>(total - free, kMostContextBytes)));
  context_bytes_ = held_bytes_;
  free_at_start_ = free;
  for (CUstream* stream : {&stream_, &copy_stream_})
    DIF_TRY(driver_.checked("cuStreamCreate", driver_.cuStreamCreate(stream, CU_STREAM_NON_BLOCKING)));
  for (std::size_t i = 0; i < kStagings; ++i) {
    Staging& staging = staging_.emplace_back();
    DIF_TRY(driver_.checked("cuMemHostAlloc", driver_.cuMemHostAlloc(&staging.memory, kStagingBytes, 0)));
    DIF_TRY(driver_.checked("cuEventCreate", driver_.cuEventCreate(&staging.done, CU_EVENT_DISABLE_TIMING)));
  }
  void* words = nullptr;
  DIF_TRY(driver_.checked(
      "cuMemHostAlloc",
      driver_.cuMemHostAlloc(&words, kReportWords * sizeof(std::uint64_t), CU_MEMHOSTALLOC_DEVICEMAP)));
  words_ = static_cast<std::uint64_t*>(words);
  for (std::size_t i = kReportWords; i-- > 0;) free_words_.push_back(words_ + i);
  return ok();
}

CudaDevice::~CudaDevice() {
  if (context_ == nullptr) return;
  driver_.cuCtxSetCurrent(context_);
  if (stream_ != nullptr) driver_.cuStreamSynchronize(stream_);
  dnn_.reset();
  if (matmul_ != nullptr) (*MatmulApi::load())->cublasLtDestroy(matmul_);
  for (const auto& [text, module] : modules_)
    if (module->loaded) driver_.cuModuleUnload(module->handle);
  for (const auto& [start, slab] : slabs_) driver_.cuMemFree(start);
  for (const auto& [start, bytes] : large_) driver_.cuMemFree(start);
  for (const Staging& staging : staging_) {
    if (staging.memory != nullptr) driver_.cuMemFreeHost(staging.memory);
    if (staging.done != nullptr) driver_.cuEventDestroy(staging.done);
  }
  for (const CUevent mark : marks_) driver_.cuEventDestroy(mark);
  if (words_ != nullptr) driver_.cuMemFreeHost(words_);
  for (CUstream stream : {stream_, copy_stream_})
    if (stream != nullptr) driver_.cuStreamDestroy(stream);
  driver_.cuDevicePrimaryCtxRelease(facts_.handle);
}

// --- memory ----------------------------------------------------------------------------------------------

std::uint64_t CudaDevice::free_bytes() const {
  std::size_t free = 0, total = 0;
  return driver_.cuMemGetInfo(&free, &total) == CUDA_SUCCESS ? free : 0;
}

std::uint64_t CudaDevice::held_bytes() const {
  if (cap_bytes_ == 0) return held_bytes_;
  const std::uint64_t free = free_bytes();
  const std::uint64_t lost = free_at_start_ > free ? free_at_start_ - free : 0;
  return std::max(held_bytes_, context_bytes_ + lost);
}

std::uint64_t CudaDevice::reserve_bytes() const {
  return kLibraryReserveBytes;
}

Status CudaDevice::hold(std::uint64_t bytes) {
  const std::uint64_t held = held_bytes();
  if (cap_bytes_ != 0 && (bytes > cap_bytes_ || held > cap_bytes_ - bytes))
    return fail(ErrorCode::kOutOfMemory,
                "{} bytes more would exceed the memory cap of {} bytes ({} are held, the CUDA context and "
                "libraries among them)",
                bytes, cap_bytes_, held);
  if (least_free_bytes_ != 0) {
    const std::uint64_t free = free_bytes();
    if (free < least_free_bytes_ || bytes > free - least_free_bytes_)
      return fail(
          ErrorCode::kOutOfMemory,
          "{} bytes more would leave less than {} MiB of {} free ({} bytes are free); end what else uses "
          "the GPU, or lower --min-free-mib",
          bytes, least_free_bytes_ >> 20, facts_.name, free);
  }
  held_bytes_ += bytes;
  return ok();
}

Result<CUdeviceptr> CudaDevice::take_pages(std::uint64_t bytes, std::uint64_t wanted) {
  DIF_TRY(hold(bytes));
  CUdeviceptr start = 0;
  const CUresult code = driver_.cuMemAlloc(&start, bytes);
  if (code == CUDA_SUCCESS) return start;
  held_bytes_ -= bytes;
  if (code != CUDA_ERROR_OUT_OF_MEMORY)
    return tl::unexpected<Error>(driver_.checked("cuMemAlloc", code).error());
  return fail(ErrorCode::kOutOfMemory,
              "{} has {} bytes of memory left, {} more are needed ({} are held here); choose a smaller size, "
              "or end what else uses the GPU",
              facts_.name, free_bytes(), wanted, held_bytes_);
}

Result<runtime::BufferView> CudaDevice::allocate_large(std::uint64_t bytes) {
  const auto padded = checked_add(bytes, kPageBytes);
  if (!padded) return fail(ErrorCode::kOutOfMemory, "{} bytes are more than any GPU holds", bytes);
  const std::uint64_t whole = *padded / kPageBytes * kPageBytes;
  DIF_ASSIGN(const CUdeviceptr start, take_pages(whole, bytes));
  large_[start] = whole;
  return view_of(start);
}

Result<runtime::BufferView> CudaDevice::allocate_small(std::uint64_t bytes) {
  const std::uint64_t padded = align_up(std::max<std::uint64_t>(bytes, 1), kAlignment);
  auto slab = std::ranges::find_if(
      slabs_, [&](const auto& entry) { return entry.second->used + padded <= kPageBytes; });
  if (slab == slabs_.end()) {
    DIF_ASSIGN(const CUdeviceptr start, take_pages(kPageBytes, padded));
    auto fresh = std::make_unique<Slab>();
    fresh->start = start;
    slab = slabs_.emplace(start, std::move(fresh)).first;
  }
  const runtime::BufferView view = view_of(slab->second->start + slab->second->used);
  slab->second->used += padded;
  ++slab->second->live;
  return view;
}

Result<runtime::BufferView> CudaDevice::allocate(std::uint64_t bytes) {
  DIF_TRY(begin_run());
  ++counters_.allocations;
  return bytes >= kLargeBytes ? allocate_large(bytes) : allocate_small(bytes);
}

void CudaDevice::release(runtime::BufferView buffer) {
  driver_.cuCtxSetCurrent(context_);
  const CUdeviceptr start = address(buffer);
  if (const auto large = large_.find(start); large != large_.end()) {
    driver_.cuMemFree(start);  // waits for what still uses it
    held_bytes_ -= large->second;
    large_.erase(large);
    return;
  }
  // What is in flight may still read the bytes. The stream runs in order, so whoever gets them next writes
  // later.
  const auto slab = std::prev(slabs_.upper_bound(start));
  if (--slab->second->live != 0) return;
  slab->second->used = 0;
  const auto is_empty = [](const auto& entry) { return entry.second->live == 0; };
  if (std::ranges::count_if(slabs_, is_empty) < 2) return;
  driver_.cuMemFree(slab->first);
  held_bytes_ -= kPageBytes;
  slabs_.erase(slab);
}

Status CudaDevice::upload(runtime::BufferView to, const void* from, std::uint64_t bytes) {
  DIF_TRY(begin_run());
  for (std::uint64_t done = 0; done < bytes;) {
    Staging& staging = staging_[next_staging_++ % staging_.size()];
    const std::uint64_t part = std::min(bytes - done, kStagingBytes);
    DIF_TRY(driver_.checked("cuEventSynchronize", driver_.cuEventSynchronize(staging.done)));
    copy_on_host(staging.memory, static_cast<const std::byte*>(from) + done, part);
    ++copies_;
    DIF_TRY(driver_.checked("cuMemcpyHtoDAsync",
                            driver_.cuMemcpyHtoDAsync(address(to) + done, staging.memory, part, stream_)));
    DIF_TRY(driver_.checked("cuEventRecord", driver_.cuEventRecord(staging.done, stream_)));
    done += part;
  }
  return ok();
}

/// What is large comes through the pinned buffers: the driver's own way to other memory is several times
/// slower.
Status CudaDevice::download(void* to, runtime::BufferView from, std::uint64_t bytes) {
  DIF_TRY(begin_run());
  if (bytes == 0) return ok();
  if (bytes < kStagingBytes) {
    ++copies_;
    DIF_TRY(
        driver_.checked("cuMemcpyDtoHAsync", driver_.cuMemcpyDtoHAsync(to, address(from), bytes, stream_)));
    return synchronize();
  }
  struct Part {
    Staging* staging = nullptr;
    std::uint64_t begin = 0, bytes = 0;
  } last;
  const auto take = [&](const Part& part) -> Status {
    DIF_TRY(driver_.checked("cuEventSynchronize", driver_.cuEventSynchronize(part.staging->done)));
    copy_on_host(static_cast<std::byte*>(to) + part.begin, part.staging->memory, part.bytes);
    return ok();
  };
  for (std::uint64_t done = 0; done < bytes;) {
    const Part part = {&staging_[next_staging_++ % staging_.size()], done,
                       std::min(bytes - done, kStagingBytes)};
    DIF_TRY(driver_.checked("cuEventSynchronize", driver_.cuEventSynchronize(part.staging->done)));
    ++copies_;
    DIF_TRY(driver_.checked(
        "cuMemcpyDtoHAsync",
        driver_.cuMemcpyDtoHAsync(part.staging->memory, address(from) + done, part.bytes, stream_)));
    DIF_TRY(driver_.checked("cuEventRecord", driver_.cuEventRecord(part.staging->done, stream_)));
    if (last.staging != nullptr) DIF_TRY(take(last));
    last = part;
    done += part.bytes;
  }
  DIF_TRY(take(last));
  return synchronize();
}

Status CudaDevice::copy(runtime::BufferView to, runtime::BufferView from, std::uint64_t bytes) {
  if (bytes == 0 || address(to) == address(from)) return ok();
  ++copies_;
  return driver_.checked("cuMemcpyDtoDAsync",
                         driver_.cuMemcpyDtoDAsync(address(to), address(from), bytes, stream_));
}

Result<ReportWord> CudaDevice::report_word() {
  if (free_words_.empty())
    return fail(ErrorCode::kOutOfMemory, "more than {} operations of one context check indices",
                kReportWords);
  ReportWord word;
  word.device_ = this;
  word.word_ = free_words_.back();
  free_words_.pop_back();
  *word.word_ = ReportWord::kNothing;
  return word;
}

ReportWord::~ReportWord() {
  if (device_ != nullptr) device_->free_words_.push_back(word_);
}

// --- order -----------------------------------------------------------------------------------------------

Status CudaDevice::begin_run() {
  return driver_.checked("cuCtxSetCurrent", driver_.cuCtxSetCurrent(context_));
}

Status CudaDevice::synchronize() {
  ++counters_.synchronizations;
  return driver_.checked("cuStreamSynchronize", driver_.cuStreamSynchronize(stream_));
}

Result<bool> CudaDevice::begin_recording() {
  DIF_TRY(driver_.checked("cuStreamBeginCapture",
                          driver_.cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)));
  return true;
}

Result<std::unique_ptr<runtime::Recording>> CudaDevice::end_recording() {
  CUgraph graph = nullptr;
  DIF_TRY(driver_.checked("cuStreamEndCapture", driver_.cuStreamEndCapture(stream_, &graph)));
  CUgraphExec executable = nullptr;
  const Status status =
      driver_.checked("cuGraphInstantiate", driver_.cuGraphInstantiateWithFlags(&executable, graph, 0));
  driver_.cuGraphDestroy(graph);
  DIF_TRY(status);
  return std::make_unique<GraphRecording>(*this, executable);
}

// --- copies beside kernels -------------------------------------------------------------------------------

/// An event of the driver.
class CudaMarker final : public runtime::Marker {
 public:
  CudaMarker(const CudaDevice& device, CUevent event) : device_(device), event_(event) {}
  ~CudaMarker() override { device_.driver_.cuEventDestroy(event_); }
  Status record(runtime::Lane lane) override {
    const DriverApi& driver = device_.driver_;
    return driver.checked("cuEventRecord", driver.cuEventRecord(event_, device_.stream_of(lane)));
  }
  Status wait(runtime::Lane lane) override {
    const DriverApi& driver = device_.driver_;
    return driver.checked("cuStreamWaitEvent", driver.cuStreamWaitEvent(device_.stream_of(lane), event_, 0));
  }
  Status synchronize() override {
    return device_.driver_.checked("cuEventSynchronize", device_.driver_.cuEventSynchronize(event_));
  }

 private:
  const CudaDevice& device_;
  CUevent event_;
};

Result<std::unique_ptr<runtime::Marker>> CudaDevice::make_marker() {
  DIF_TRY(begin_run());
  CUevent event = nullptr;
  DIF_TRY(driver_.checked("cuEventCreate", driver_.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING)));
  return std::make_unique<CudaMarker>(*this, event);
}

Result<void*> CudaDevice::allocate_pinned(std::uint64_t bytes) {
  DIF_TRY(begin_run());
  if (bytes >= kPageBytes)
    if (auto pages = HostPages::create(bytes);
        pages && driver_.cuMemHostRegister(pages->data(), pages->bytes(), 0) == CUDA_SUCCESS) {
      void* const memory = pages->data();
      pages_.emplace(memory, std::move(*pages));
      return memory;
    }
  void* memory = nullptr;
  const CUresult code = driver_.cuMemHostAlloc(&memory, std::max<std::uint64_t>(bytes, 1), 0);
  if (code == CUDA_ERROR_OUT_OF_MEMORY)
    return fail(ErrorCode::kOutOfMemory, "the system has no {} MiB of host memory that can be pinned",
                (bytes >> 20) + 1);
  DIF_TRY(driver_.checked("cuMemHostAlloc", code));
  return memory;
}

void CudaDevice::release_pinned(void* memory) {
  driver_.cuCtxSetCurrent(context_);
  const auto pages = pages_.find(memory);
  if (pages == pages_.end()) {
    driver_.cuMemFreeHost(memory);
    return;
  }
  driver_.cuMemHostUnregister(memory);
  pages_.erase(pages);
}

Status CudaDevice::upload_later(runtime::Lane lane, runtime::BufferView to, const void* pinned,
                                std::uint64_t bytes) {
  if (bytes == 0) return ok();
  ++copies_;
  return driver_.checked("cuMemcpyHtoDAsync",
                         driver_.cuMemcpyHtoDAsync(address(to), pinned, bytes, stream_of(lane)));
}

Status CudaDevice::download_later(runtime::Lane lane, void* pinned, runtime::BufferView from,
                                  std::uint64_t bytes) {
  if (bytes == 0) return ok();
  ++copies_;
  return driver_.checked("cuMemcpyDtoHAsync",
                         driver_.cuMemcpyDtoHAsync(pinned, address(from), bytes, stream_of(lane)));
}

// --- code ------------------------------------------------------------------------------------------------

KernelModule& CudaDevice::module(const std::string& text) {
  std::unique_ptr<KernelModule>& module = modules_[text];
  if (module != nullptr) return *module;
  module = std::make_unique<KernelModule>();
  io::CacheKey key = compile_key(compiler_, text, facts_.capability);
  key.add("driver", static_cast<std::uint64_t>(driver_.version));
  if (const auto kept = cache_.find(key))
    module->loaded = driver_.cuModuleLoadData(&module->handle, kept->bytes.data()) == CUDA_SUCCESS;
  if (module->loaded) return *module;
  module->key = std::move(key);
  ++counters_.compilations;
  module->binary = std::async(std::launch::async, [this, text] {
    compiling_.acquire();
    auto binary = compile(compiler_, text, facts_.capability);
    compiling_.release();
    return binary;
  });
  return *module;
}

/// Waits for the binary where there is none yet.
Status CudaDevice::load(KernelModule& module) {
  if (module.loaded) return ok();
  if (!module.binary.valid()) return fail(ErrorCode::kInternal, "a kernel that does not compile is launched");
  DIF_ASSIGN(const std::vector<std::byte> binary, module.binary.get());
  DIF_TRY(driver_.checked("cuModuleLoadData", driver_.cuModuleLoadData(&module.handle, binary.data())));
  module.loaded = true;
  cache_.store(*module.key, binary);
  return ok();
}

Status CudaDevice::finish_compiling() {
  DIF_TRY(begin_run());
  for (const auto& [text, module] : modules_) DIF_TRY(load(*module));
  return ok();
}

Result<CudaKernel> CudaDevice::kernel(const std::string& text, const char* name, int threads,
                                      int shared_bytes) {
  DIF_TRY(begin_run());
  CudaKernel kernel;
  kernel.device_ = this;
  kernel.module_ = &module(text);
  kernel.name_ = name;
  kernel.threads_ = static_cast<unsigned>(threads);
  kernel.shared_bytes_ = static_cast<unsigned>(shared_bytes);
  return kernel;
}

/// Makes a library's handle and counts the memory that it takes.
Status CudaDevice::count_library(const std::function<Status()>& make) {
  DIF_TRY(begin_run());
  const std::uint64_t before = free_bytes();
  DIF_TRY(make());
  const std::uint64_t after = free_bytes();
  held_bytes_ += before > after ? before - after : 0;
  return hold(0);  // they are taken already
}

Result<cublasLtHandle_t> CudaDevice::matmul() {
  if (matmul_ != nullptr) return matmul_;
  const auto api = MatmulApi::load();
  if (!api) return fail(ErrorCode::kDeclined, "{}", api.error().message);
  DIF_TRY(count_library([&]() -> Status {
    if (const cublasStatus_t code = (*api)->cublasLtCreate(&matmul_); code != CUBLAS_STATUS_SUCCESS)
      return runtime::declined("cuBLASLt {} ({}) does not start: {}", (*api)->version, (*api)->file,
                               (*api)->cublasLtGetStatusString(code));
    return ok();
  }));
  return matmul_;
}

Result<DnnPlans*> CudaDevice::dnn() {
  if (dnn_ != nullptr) return dnn_.get();
  const auto library = DnnLibrary::load();
  if (!library) return fail(ErrorCode::kDeclined, "{}", library.error().message);
  DIF_TRY(count_library([&]() -> Status {
    DIF_ASSIGN(dnn_, DnnPlans::create(**library, stream_, facts_, driver_.version, cache_));
    return ok();
  }));
  return dnn_.get();
}

}  // namespace dif::cuda
