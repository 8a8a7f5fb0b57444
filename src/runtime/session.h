#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dif/backend_abi.h"
#include "dif/status.h"
#include "ir/program.h"
#include "runtime/backend_library.h"
#include "runtime/execution_options.h"
#include "runtime/weight_options.h"

namespace dif::runtime {

/// The host's side of the plug-in interface, with ownership and Status. What a user sees of a backend is
/// here.

struct ContextOptions {
  int device = 0;
  unsigned threads = 0;  ///< 0 = the CPUs that the process may use
  std::uint64_t memory_cap_bytes = 0;
  /// Bound on copies of weights in layouts of the backend's own: 0 = none, UINT64_MAX = no bound; in MiB.
  std::uint64_t weight_cache_bytes = UINT64_MAX;
  std::string cache_folder;
  bool keep_weight_cache = false;  ///< such copies are kept in cache_folder, for all processes
  /// Operations that the device declines may run on the host; reports count them.
  bool allow_host_fallback = false;
  bool pinned_io = false;  ///< host tensors of runs go through pinned memory
  WeightOptions weights;
  std::function<void(int level, const char* sentence)> log;
  std::function<void(const dif_trace_event& event)> trace;  ///< empty = no tracing
  std::function<bool()> cancelled;
};

class Context {
 public:
  static Result<std::shared_ptr<Context>> create(std::shared_ptr<const BackendLibrary> library,
                                                 ContextOptions options);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  const BackendLibrary& library() const { return *library_; }
  const dif_backend_api& api() const { return library_->api(); }
  dif_context* handle() const { return handle_; }
  /// As it was asked for; 0 = none.
  std::uint64_t memory_cap_bytes() const { return options_.memory_cap_bytes; }
  /// Whether device memory, or the part of it for weights, is bounded.
  bool is_capped() const { return options_.memory_cap_bytes != 0 || options_.weights.budget_bytes != 0; }

 private:
  Context(std::shared_ptr<const BackendLibrary> library, ContextOptions options)
      : library_(std::move(library)), options_(std::move(options)) {}

  std::shared_ptr<const BackendLibrary> library_;
  ContextOptions options_;
  dif_context* handle_ = nullptr;
};

/// A tensor on the device of a context.
class DeviceValue {
 public:
  static Result<DeviceValue> create(std::shared_ptr<Context> context, const ir::TensorType& type);
  DeviceValue(DeviceValue&& other) noexcept;
  DeviceValue& operator=(DeviceValue&& other) noexcept;
  ~DeviceValue();

  const ir::TensorType& type() const { return type_; }
  dif_value* handle() const { return handle_; }
  /// Pre: bytes.size() == type().bytes().
  Status write(std::span<const std::byte> bytes);
  Status read(std::span<std::byte> bytes) const;

 private:
  DeviceValue(std::shared_ptr<Context> context, const ir::TensorType& type, dif_value* handle)
      : context_(std::move(context)), type_(type), handle_(handle) {}

  std::shared_ptr<Context> context_;
  ir::TensorType type_;
  dif_value* handle_ = nullptr;
};

/// Host memory that the device of a context copies from and to by itself. Empty after a move.
class HostMemory {
 public:
  HostMemory() = default;
  /// Aligned to pages. Errors: Unavailable (the backend, or its device, has none: any memory serves as well),
  /// OutOfMemory.
  static Result<HostMemory> create(std::shared_ptr<Context> context, std::uint64_t bytes);
  HostMemory(HostMemory&& other) noexcept { *this = std::move(other); }
  HostMemory& operator=(HostMemory&& other) noexcept {
    std::swap(context_, other.context_);
    std::swap(data_, other.data_);
    return *this;
  }
  ~HostMemory();

  std::byte* data() const { return data_; }

 private:
  std::shared_ptr<Context> context_;
  std::byte* data_ = nullptr;
};

/// A constant of a program in host memory; valid while the prepared program lives.
struct ConstantBinding {
  const void* data = nullptr;
  std::uint64_t bytes = 0;
  int fd = -1;
  std::uint64_t file_offset = 0;
};

/// One input or output of a run: host memory or a device value.
struct Binding {
  ir::TensorType type;
  std::span<std::byte> host;
  const DeviceValue* value = nullptr;

  static Binding of(const ir::TensorType& type, std::span<std::byte> host) { return {type, host, nullptr}; }
  static Binding of(const DeviceValue& value) { return {value.type(), {}, &value}; }
};

struct StepEvent {
  std::uint32_t step = 0;
  bool all_finite = true;
  std::span<const std::byte> state;  ///< when wanted
};

enum class AfterStep { kContinue, kStop };

struct LoopOptions {
  std::uint32_t first_step = 0;
  std::uint32_t n_steps = 0;
  std::uint32_t step_input = 0;
  std::vector<dif_carry> carries;
  bool wants_state = false;
  std::function<AfterStep(const StepEvent&)> on_step;
};

struct RunOptions {
  bool check_operations = false;
  /// The run may come back before its outputs are complete, where they are HostMemory: they are once the next
  /// run of the context is back, or the program is gone, and until then HostMemory that it reads or writes is
  /// left alone.
  bool ahead = false;
};

/// Figures and per-operation decisions of a prepared program.
struct PreparedReport {
  std::uint64_t arena_bytes = 0;
  std::uint64_t workspace_bytes = 0;
  std::uint64_t resident_bytes = 0;
  std::uint64_t streamed_bytes = 0;
  std::uint64_t prepacked_bytes = 0;
  std::uint64_t pinned_host_bytes = 0;
  std::string details;  ///< JSON
  /// Of the whole context at the time of the report; 0 where the plug-in does not count.
  std::uint64_t context_arena_bytes = 0;
  std::uint64_t context_workspace_bytes = 0;
  std::uint64_t context_peak_bytes = 0;
  std::uint32_t host_operations = 0;  ///< that leave the device
  std::uint64_t direct_bytes = 0;     ///< of weights, read past the page cache until now
};

/// What the device of a context did since the context was made, or between two reports; 0 where the plug-in
/// does not count.
struct LaunchCounts {
  std::uint64_t graph_launches = 0;
  std::uint64_t kernel_launches = 0;           ///< by the host: one by one, or to be recorded
  std::uint64_t host_stream_synchronizes = 0;  ///< waits until the device has nothing left to do
  std::uint64_t device_mem_allocs = 0;
  std::uint64_t copies = 0;

  LaunchCounts since(const LaunchCounts& before) const;
};

class PreparedProgram {
 public:
  /// `constants` in the order of program.constants; their memory outlives the result. Errors also:
  /// InvalidInput (a choice of `execution` that the backend or the program does not have).
  static Result<std::unique_ptr<PreparedProgram>> prepare(std::shared_ptr<Context> context,
                                                          const ir::Program& program,
                                                          std::span<const ConstantBinding> constants,
                                                          const ExecutionOptions& execution = {});
  /// What prepare would report, decided without reading a constant; nothing is kept. Errors also: Unavailable
  /// (a plug-in that cannot plan alone).
  static Result<PreparedReport> plan(std::shared_ptr<Context> context, const ir::Program& program);
  /// The same as a program that cannot run: what is planned while it lives is planned beside it.
  static Result<std::unique_ptr<PreparedProgram>> prepare_plan(std::shared_ptr<Context> context,
                                                               const ir::Program& program);
  ~PreparedProgram();
  PreparedProgram(const PreparedProgram&) = delete;
  PreparedProgram& operator=(const PreparedProgram&) = delete;

  Result<PreparedReport> report() const;
  Result<LaunchCounts> launches() const;
  Status run(std::span<const Binding> inputs, std::span<const Binding> outputs,
             const RunOptions& options = {});
  Status run_loop(std::span<const Binding> inputs, std::span<const Binding> outputs, const LoopOptions& loop,
                  const RunOptions& options = {});
  /// The operation that the last run or run_loop failed at, where the backend knows it.
  std::optional<ir::OpId> failed_operation() const;
  const std::shared_ptr<Context>& context() const { return context_; }

 private:
  explicit PreparedProgram(std::shared_ptr<Context> context) : context_(std::move(context)) {}
  static Result<std::unique_ptr<PreparedProgram>> prepare_with(std::shared_ptr<Context> context,
                                                               const ir::Program& program,
                                                               std::span<const ConstantBinding> constants,
                                                               std::uint32_t flags,
                                                               const ExecutionOptions& execution);

  std::shared_ptr<Context> context_;
  dif_prepared* handle_ = nullptr;
  std::uint32_t failed_operation_ = DIF_NO_OPERATION;
};

}  // namespace dif::runtime
