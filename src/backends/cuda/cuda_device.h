#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <semaphore>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "backends/cuda/cuda_api.h"
#include "backends/cuda/device_list.h"
#include "backends/cuda/host_pages.h"
#include "io/cache_store.h"
#include "runtime/abi_adapter.h"
#include "runtime/device.h"

namespace dif::cuda {

/// One parameter of a kernel; a buffer is the pointer to its first byte, a map the whole of it.
using Argument = std::variant<runtime::BufferView, std::int32_t, std::int64_t, float, const CUtensorMap*>;

/// Blocks along each of three axes, or threads of a block.
struct Extent {
  std::int64_t x = 1, y = 1, z = 1;
};

class CudaDevice;
class DnnPlans;
struct KernelModule;

/// A kernel, compiled or about to be: the first launch waits for that. Its module lives as long as the
/// device.
class CudaKernel {
 public:
  CudaKernel() = default;

  /// Submits the kernel; nothing happens where there is no block.
  Status launch(Extent blocks, std::span<const Argument> arguments) const;
  Status launch(Extent blocks, std::initializer_list<Argument> arguments) const {
    return launch(blocks, std::span(arguments.begin(), arguments.size()));
  }

 private:
  friend class CudaDevice;
  Status find_function() const;

  CudaDevice* device_ = nullptr;
  KernelModule* module_ = nullptr;
  const char* name_ = "";
  mutable CUfunction function_ = nullptr;
  unsigned threads_ = 0, shared_bytes_ = 0;
};

/// A word of host memory that kernels may make smaller (atomicMin) and that the host reads once the device is
/// idle. Goes back to the device.
class ReportWord {
 public:
  static constexpr std::uint64_t kNothing = UINT64_MAX;

  ReportWord() = default;
  ReportWord(ReportWord&& other) noexcept { *this = std::move(other); }
  ReportWord& operator=(ReportWord&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(word_, other.word_);
    return *this;
  }
  ~ReportWord();

  runtime::BufferView view() const { return {word_, 0}; }  ///< pinned memory has one address on both sides
  /// What was reported since this was last asked.
  std::uint64_t take() { return std::exchange(*word_, kNothing); }

 private:
  friend class CudaDevice;
  CudaDevice* device_ = nullptr;
  std::uint64_t* word_ = nullptr;
};

/// A GPU with its primary context, one stream on which everything runs in order, and one for copies from
/// and to pinned memory beside it. Buffers are device addresses. The memory cap counts the context, the
/// libraries, kernels and every allocation.
class CudaDevice final : public runtime::Device {
 public:
  /// Errors: Unavailable (no driver, no such device, too old; no NVRTC), OutOfMemory (the cap does not hold
  /// the context).
  static Result<std::unique_ptr<runtime::Device>> create(const runtime::DeviceOptions& options);
  /// The same on libraries that are open; they outlive the device.
  static Result<std::unique_ptr<CudaDevice>> create(const DriverApi& driver, const CompilerApi& compiler,
                                                    DeviceFacts facts, const runtime::DeviceOptions& options);
  ~CudaDevice() override;

  bool addresses_host_memory() const override { return false; }
  Result<runtime::BufferView> allocate(std::uint64_t bytes) override;
  void release(runtime::BufferView buffer) override;
  Status upload(runtime::BufferView to, const void* from, std::uint64_t bytes) override;
  Status download(void* to, runtime::BufferView from, std::uint64_t bytes) override;
  Status copy(runtime::BufferView to, runtime::BufferView from, std::uint64_t bytes) override;
  Status begin_run() override;
  Status synchronize() override;
  bool has_copy_lane() const override { return true; }
  Status enter_copy_thread() override { return begin_run(); }
  Result<void*> allocate_pinned(std::uint64_t bytes) override;
  void release_pinned(void* memory) override;
  Status upload_later(runtime::Lane lane, runtime::BufferView to, const void* pinned,
                      std::uint64_t bytes) override;
  Status download_later(runtime::Lane lane, void* pinned, runtime::BufferView from,
                        std::uint64_t bytes) override;
  Result<std::unique_ptr<runtime::Marker>> make_marker() override;
  std::uint64_t cap_bytes() const override { return cap_bytes_; }
  /// With a cap: what was counted or, where that is more, what the GPU lost since the device was made.
  std::uint64_t held_bytes() const override;
  std::uint64_t reserve_bytes() const override;
  void set_choices(runtime::KernelChoices* choices) override { choices_ = choices; }
  runtime::KernelChoices* choices() const { return choices_; }
  runtime::DeviceCounters counters() const override {
    runtime::DeviceCounters counters = counters_;
    counters.copies = copies_;
    return counters;
  }
  void measure_kernels(bool) override { n_marks_ = 0; }
  Result<bool> mark_time() override;
  Result<std::vector<std::uint64_t>> times_between_marks() override;
  Result<std::unique_ptr<runtime::FiniteProbe>> finite_probe() override;
  Result<bool> begin_recording() override;
  Result<std::unique_ptr<runtime::Recording>> end_recording() override;

  /// The kernel called `name` (a literal) of a text, for blocks of `threads`, compiled for this device on a
  /// thread of its own. Compiled texts are kept while the device lives, and on disk.
  Result<CudaKernel> kernel(const std::string& text, const char* name, int threads, int shared_bytes = 0);

  /// Waits until every text is compiled. Errors: Internal (one does not compile; with the compiler's first
  /// error).
  Status finish_compiling();

  /// cuBLASLt's handle, made when first asked for. Errors: Declined (why there is none).
  Result<cublasLtHandle_t> matmul();
  /// cuDNN, likewise.
  Result<DnnPlans*> dnn();

  /// What was measured or found in the cache for each product, by the key of that entry.
  std::map<std::string, std::vector<std::byte>>& known_choices() { return known_choices_; }
  io::CacheStore& cache() { return cache_; }

  /// Errors: OutOfMemory (thousands are in use).
  Result<ReportWord> report_word();

  const DeviceFacts& facts() const { return facts_; }
  const DriverApi& driver() const { return driver_; }
  CUstream stream() const { return stream_; }

 private:
  friend class CudaKernel;
  friend class CudaMarker;
  friend class GraphRecording;
  friend class ReportWord;
  struct Slab;
  struct Staging;

  CudaDevice(const DriverApi& driver, const CompilerApi& compiler, DeviceFacts facts,
             const runtime::DeviceOptions& options);
  Status open();
  Status count_library(const std::function<Status()>& make);
  Status hold(std::uint64_t bytes);
  std::uint64_t free_bytes() const;
  CUstream stream_of(runtime::Lane lane) const {
    return lane == runtime::Lane::kRun ? stream_ : copy_stream_;
  }
  KernelModule& module(const std::string& text);
  Status load(KernelModule& module);
  /// Pages of their own for an allocation that asked for `wanted` bytes.
  Result<CUdeviceptr> take_pages(std::uint64_t bytes, std::uint64_t wanted);
  Result<runtime::BufferView> allocate_large(std::uint64_t bytes);
  Result<runtime::BufferView> allocate_small(std::uint64_t bytes);

  const DriverApi& driver_;
  const CompilerApi& compiler_;
  DeviceFacts facts_;
  std::uint64_t cap_bytes_ = 0, least_free_bytes_ = 0, held_bytes_ = 0;
  std::uint64_t context_bytes_ = 0, free_at_start_ = 0;
  std::function<void(int level, const std::string& sentence)> log_;
  io::CacheStore cache_;
  CUcontext context_ = nullptr;
  CUstream stream_ = nullptr, copy_stream_ = nullptr;
  cublasLtHandle_t matmul_ = nullptr;
  std::unique_ptr<DnnPlans> dnn_;
  std::counting_semaphore<> compiling_{std::max(1U, std::thread::hardware_concurrency())};  ///< at once
  std::map<std::string, std::unique_ptr<KernelModule>> modules_;                            ///< by text
  std::map<CUdeviceptr, std::uint64_t> large_;          ///< bytes of allocations of their own
  std::map<CUdeviceptr, std::unique_ptr<Slab>> slabs_;  ///< by first address
  std::map<void*, HostPages> pages_;                    ///< pinned memory that is not the driver's
  std::vector<Staging> staging_;
  std::size_t next_staging_ = 0;
  std::vector<CUevent> marks_;  ///< events with times; the first n_marks_ are in use
  std::size_t n_marks_ = 0;
  std::uint64_t* words_ = nullptr;  ///< of all report words
  std::vector<std::uint64_t*> free_words_;
  runtime::DeviceCounters counters_;
  runtime::KernelChoices* choices_ = nullptr;
  std::atomic<std::uint64_t> copies_{0};  ///< of both lanes
  std::future<void> opening_;             ///< libraries; the device waits for that before it goes
  std::map<std::string, std::vector<std::byte>> known_choices_;
};

/// The device of a request to this backend's kernels.
inline CudaDevice& device_of(runtime::Device* device) {
  return static_cast<CudaDevice&>(*device);
}

}  // namespace dif::cuda
