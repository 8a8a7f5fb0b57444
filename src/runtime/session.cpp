#include "runtime/session.h"

#include <cstddef>
#include <exception>
#include <new>

#include "base/check.h"
#include "base/error.h"
#include "ir/program_file.h"
#include "runtime/abi_codes.h"

namespace dif::runtime {

namespace {

/// Less than one MiB is none.
std::uint32_t weight_cache_mib(std::uint64_t bytes) {
  if (bytes >> 20 == 0) return DIF_WEIGHT_CACHE_OFF;
  return bytes >> 20 < DIF_WEIGHT_CACHE_OFF ? static_cast<std::uint32_t>(bytes >> 20) : 0;
}

dif_weight_options raw_weights(const WeightOptions& weights) {
  dif_weight_options raw = {};
  raw.struct_size = sizeof(raw);
  raw.flags = (weights.host_pinned ? DIF_WEIGHTS_HOST_PINNED : 0) |
              (weights.serial ? DIF_WEIGHTS_SERIAL : 0) | (weights.lazy ? DIF_WEIGHTS_LAZY : 0) |
              (weights.release_pages ? DIF_WEIGHTS_RELEASE_PAGES : 0);
  raw.budget_bytes = weights.budget_bytes;
  raw.least_free_bytes = weights.least_free_bytes;
  raw.order = to_abi(weights.order);
  raw.prefetch_distance = weights.prefetch_distance;
  raw.threads = weights.threads;
  raw.staging_buffers = weights.n_buffers;
  return raw;
}

}  // namespace

Result<std::shared_ptr<Context>> Context::create(std::shared_ptr<const BackendLibrary> library,
                                                 ContextOptions options) {
  std::shared_ptr<Context> context(new Context(std::move(library), std::move(options)));
  const ContextOptions& chosen = context->options_;
  dif_context_options raw = {};
  raw.struct_size = sizeof(raw);
  raw.device = chosen.device;
  raw.threads = chosen.threads;
  raw.flags = (chosen.allow_host_fallback ? DIF_CONTEXT_ALLOW_HOST_FALLBACK : 0) |
              (chosen.keep_weight_cache ? DIF_CONTEXT_KEEP_WEIGHT_CACHE : 0) |
              (chosen.pinned_io ? DIF_CONTEXT_PINNED_IO : 0);
  raw.memory_cap_bytes = chosen.memory_cap_bytes;
  raw.weight_cache_mib = weight_cache_mib(chosen.weight_cache_bytes);
  raw.cache_dir = chosen.cache_folder.empty() ? nullptr : chosen.cache_folder.c_str();
  const dif_weight_options weights = raw_weights(chosen.weights);
  raw.weights = &weights;
  raw.user = &context->options_;
  // Nothing may be thrown through a plug-in: a message that finds no memory is lost, and a question without
  // an answer stops the run.
  if (chosen.log)
    raw.log = [](void* user, std::int32_t level, const char* sentence) {
      try {
        if (sentence != nullptr) static_cast<ContextOptions*>(user)->log(level, sentence);
      } catch (const std::exception&) {
      }
    };
  if (chosen.trace)
    raw.trace = [](void* user, const dif_trace_event* event) {
      try {
        if (event != nullptr) static_cast<ContextOptions*>(user)->trace(*event);
      } catch (const std::exception&) {
      }
    };
  if (chosen.cancelled)
    raw.cancelled = [](void* user) -> std::int32_t {
      try {
        return static_cast<ContextOptions*>(user)->cancelled() ? 1 : 0;
      } catch (const std::exception&) {
        return 1;
      }
    };
  ErrorText error;
  const dif_code code = context->api().context_create(&raw, &context->handle_, error.get());
  DIF_TRY(error.status(code, context->library()));
  if (context->handle_ == nullptr)
    return fail(ErrorCode::kUnavailable, "backend {} created no context", context->library().name());
  return context;
}

Context::~Context() {
  if (handle_ != nullptr) api().context_destroy(handle_);
}

Result<DeviceValue> DeviceValue::create(std::shared_ptr<Context> context, const ir::TensorType& type) {
  const dif_tensor_type raw = to_abi(type);
  dif_value* handle = nullptr;
  ErrorText error;
  DIF_TRY(error.status(context->api().value_create(context->handle(), &raw, &handle, error.get()),
                       context->library()));
  if (handle == nullptr)
    return fail(ErrorCode::kUnavailable, "backend {} created no value", context->library().name());
  return DeviceValue(std::move(context), type, handle);
}

DeviceValue::DeviceValue(DeviceValue&& other) noexcept
    : context_(std::move(other.context_)),
      type_(other.type_),
      handle_(std::exchange(other.handle_, nullptr)) {}

DeviceValue& DeviceValue::operator=(DeviceValue&& other) noexcept {
  std::swap(context_, other.context_);
  std::swap(type_, other.type_);
  std::swap(handle_, other.handle_);
  return *this;
}

DeviceValue::~DeviceValue() {
  if (handle_ != nullptr) context_->api().value_destroy(handle_);
}

Status DeviceValue::write(std::span<const std::byte> bytes) {
  ErrorText error;
  return error.status(context_->api().value_write(handle_, bytes.data(), bytes.size(), error.get()),
                      context_->library());
}

Status DeviceValue::read(std::span<std::byte> bytes) const {
  ErrorText error;
  return error.status(context_->api().value_read(handle_, bytes.data(), bytes.size(), error.get()),
                      context_->library());
}

namespace {

bool has_host_memory(const dif_backend_api& api) {
  constexpr std::size_t kEnd = offsetof(dif_backend_api, host_release) + sizeof(api.host_release);
  return api.struct_size >= kEnd && api.host_allocate != nullptr && api.host_release != nullptr;
}

}  // namespace

Result<HostMemory> HostMemory::create(std::shared_ptr<Context> context, std::uint64_t bytes) {
  const dif_backend_api& api = context->api();
  if (!has_host_memory(api))
    return fail(ErrorCode::kUnavailable, "backend {} has no host memory of its own",
                context->library().name());
  void* data = nullptr;
  ErrorText error;
  DIF_TRY(error.status(api.host_allocate(context->handle(), bytes, &data, error.get()), context->library()));
  if (data == nullptr)
    return fail(ErrorCode::kUnavailable, "backend {} gave no host memory", context->library().name());
  HostMemory memory;
  memory.context_ = std::move(context);
  memory.data_ = static_cast<std::byte*>(data);
  return memory;
}

HostMemory::~HostMemory() {
  if (data_ != nullptr) context_->api().host_release(context_->handle(), data_);
}

namespace {

std::vector<dif_tensor> raw_tensors(std::span<const Binding> bindings) {
  std::vector<dif_tensor> tensors;
  for (const Binding& binding : bindings) {
    dif_tensor tensor = {};
    tensor.struct_size = sizeof(tensor);
    tensor.type = to_abi(binding.type);
    if (binding.value != nullptr) {
      tensor.value = binding.value->handle();
    } else {
      tensor.data = binding.host.data();
      tensor.bytes = binding.host.size();
    }
    tensors.push_back(tensor);
  }
  return tensors;
}

/// What a plug-in without host memory need not know it is not asked for.
dif_run_options raw_run(const Context& context, std::vector<dif_tensor>& inputs,
                        std::vector<dif_tensor>& outputs, const RunOptions& options) {
  dif_run_options raw = {};
  raw.struct_size = sizeof(raw);
  raw.flags = (options.check_operations ? DIF_RUN_CHECK_OPERATIONS : 0) |
              (options.ahead && has_host_memory(context.api()) ? DIF_RUN_AHEAD : 0);
  raw.inputs = inputs.data();
  raw.n_inputs = static_cast<std::uint32_t>(inputs.size());
  raw.outputs = outputs.data();
  raw.n_outputs = static_cast<std::uint32_t>(outputs.size());
  return raw;
}

/// The caller's choices in C; lives as long as the call.
class RawExecution {
 public:
  explicit RawExecution(const ExecutionOptions& execution) {
    for (const LinearChoice& choice : execution.linears)
      linears_.push_back({sizeof(dif_linear_choice), choice.operation,
                          choice.swiglu ? DIF_LINEAR_SWIGLU : choice.rank.value_or(DIF_LINEAR_MEASURED),
                          choice.warmups, choice.iterations, choice.sessions});
    raw_.struct_size = sizeof(raw_);
    raw_.flags = (execution.more_algorithms ? DIF_EXECUTION_MORE_ALGORITHMS : 0) |
                 (execution.stream_weights ? DIF_EXECUTION_STREAM_WEIGHTS : 0);
    raw_.linears = linears_.data();
    raw_.n_linears = static_cast<std::uint32_t>(linears_.size());
    raw_.attention = static_cast<std::uint32_t>(execution.attention);
    raw_.resident_constants = execution.resident_constants.data();
    raw_.n_resident_constants = static_cast<std::uint32_t>(execution.resident_constants.size());
  }
  RawExecution(const RawExecution&) = delete;
  RawExecution& operator=(const RawExecution&) = delete;
  const dif_execution_options* get() const { return &raw_; }

 private:
  std::vector<dif_linear_choice> linears_;
  dif_execution_options raw_ = {};
};

}  // namespace

Result<std::unique_ptr<PreparedProgram>> PreparedProgram::prepare(std::shared_ptr<Context> context,
                                                                  const ir::Program& program,
                                                                  std::span<const ConstantBinding> constants,
                                                                  const ExecutionOptions& execution) {
  return prepare_with(std::move(context), program, constants, 0, execution);
}

Result<PreparedReport> PreparedProgram::plan(std::shared_ptr<Context> context, const ir::Program& program) {
  DIF_ASSIGN(const auto prepared, prepare_plan(std::move(context), program));
  return prepared->report();
}

Result<std::unique_ptr<PreparedProgram>> PreparedProgram::prepare_plan(std::shared_ptr<Context> context,
                                                                       const ir::Program& program) {
  if (context->api().abi_minor < 1)
    return fail(ErrorCode::kUnavailable,
                "backend {} has version {}.{} of the interface and cannot plan alone",
                context->library().name(), context->api().abi_major, context->api().abi_minor);
  std::vector<ConstantBinding> constants;
  for (const ir::ValueId id : program.constants) constants.push_back({nullptr, program.type(id).bytes()});
  return prepare_with(std::move(context), program, constants, DIF_PREPARE_PLAN_ONLY, {});
}

Result<std::unique_ptr<PreparedProgram>> PreparedProgram::prepare_with(
    std::shared_ptr<Context> context, const ir::Program& program, std::span<const ConstantBinding> constants,
    std::uint32_t flags, const ExecutionOptions& execution) {
  if (execution != ExecutionOptions() && context->api().abi_minor < 3)
    return invalid_input("backend {} has version {}.{} of the interface and takes no choice of algorithms",
                         context->library().name(), context->api().abi_major, context->api().abi_minor);
  DIF_CHECK(constants.size() == program.constants.size());
  const auto bytes = ir::encode(program);
  std::vector<dif_constant> raw_constants;
  for (std::size_t i = 0; i < constants.size(); ++i) {
    const ir::ValueInfo& value = program.values[program.constants[i]];
    dif_constant constant = {};
    constant.struct_size = sizeof(constant);
    constant.fd = constants[i].fd;
    constant.file_offset = constants[i].file_offset;
    constant.name = value.name.c_str();
    constant.type = to_abi(value.type);
    constant.data = constants[i].data;
    constant.bytes = constants[i].bytes;
    raw_constants.push_back(constant);
  }
  dif_prepare_options raw = {};
  raw.struct_size = sizeof(raw);
  raw.program = bytes.data();
  raw.program_bytes = bytes.size();
  raw.constants = raw_constants.data();
  raw.n_constants = static_cast<std::uint32_t>(raw_constants.size());
  raw.flags = flags;
  const RawExecution choices(execution);
  raw.execution = choices.get();
  // The owner comes first: whatever fails, the handle is given back.
  std::unique_ptr<PreparedProgram> prepared(new PreparedProgram(std::move(context)));
  const BackendLibrary& library = prepared->context_->library();
  ErrorText error;
  const dif_code code =
      library.api().prepare(prepared->context_->handle(), &raw, &prepared->handle_, error.get());
  if (Status status = error.status(code, library); !status)
    return with_context(std::move(status.error()), "program {}", program.name);
  if (prepared->handle_ == nullptr)
    return fail(ErrorCode::kUnavailable, "backend {} prepared nothing", library.name());
  return prepared;
}

PreparedProgram::~PreparedProgram() {
  if (handle_ != nullptr) context_->api().prepared_destroy(handle_);
}

Result<PreparedReport> PreparedProgram::report() const {
  dif_report raw = {};
  raw.struct_size = sizeof(raw);
  ErrorText error;
  DIF_TRY(error.status(context_->api().report(handle_, &raw, error.get()), context_->library()));
  return PreparedReport{raw.arena_bytes,
                        raw.workspace_bytes,
                        raw.resident_bytes,
                        raw.streamed_bytes,
                        raw.prepacked_bytes,
                        raw.pinned_host_bytes,
                        raw.details == nullptr ? "{}" : raw.details,
                        raw.context_arena_bytes,
                        raw.context_workspace_bytes,
                        raw.context_peak_bytes,
                        raw.n_host_operations,
                        raw.direct_bytes};
}

Result<LaunchCounts> PreparedProgram::launches() const {
  dif_report raw = {};
  raw.struct_size = sizeof(raw);
  ErrorText error;
  DIF_TRY(error.status(context_->api().report(handle_, &raw, error.get()), context_->library()));
  return LaunchCounts{raw.context_graph_launches, raw.context_kernel_launches, raw.context_synchronizations,
                      raw.context_allocations, raw.context_copies};
}

LaunchCounts LaunchCounts::since(const LaunchCounts& before) const {
  return {graph_launches - before.graph_launches, kernel_launches - before.kernel_launches,
          host_stream_synchronizes - before.host_stream_synchronizes,
          device_mem_allocs - before.device_mem_allocs, copies - before.copies};
}

Status PreparedProgram::run(std::span<const Binding> inputs, std::span<const Binding> outputs,
                            const RunOptions& options) {
  auto raw_inputs = raw_tensors(inputs);
  auto raw_outputs = raw_tensors(outputs);
  const dif_run_options raw = raw_run(*context_, raw_inputs, raw_outputs, options);
  ErrorText error;
  const dif_code code = context_->api().run(handle_, &raw, error.get());
  failed_operation_ = error.operation();
  return error.status(code, context_->library());
}

namespace {

/// One call of run_loop, and what was wrong with the first step event that was not as it must be.
struct LoopCall {
  const LoopOptions& loop;
  std::uint64_t state_bytes;
  std::string wrong;
  bool out_of_memory = false;

  AfterStep take(const dif_step_event* event) {
    if (event == nullptr || event->struct_size < sizeof(dif_step_event))
      return stop("a step event that is incomplete");
    if (event->step < loop.first_step || event->step - loop.first_step >= loop.n_steps)
      return stop(
          fmt::format("step {} of a loop over {} steps from {}", event->step, loop.n_steps, loop.first_step));
    StepEvent step = {event->step, event->all_finite != 0, {}};
    if (loop.wants_state) {
      const std::uint64_t found = event->carried == nullptr ? 0 : event->carried_bytes;
      if (found != state_bytes)
        return stop(fmt::format("{} bytes of state after step {} where there are {}", found, event->step,
                                state_bytes));
      step.state = {static_cast<const std::byte*>(event->carried), found};
    }
    return loop.on_step(step);
  }

  AfterStep stop(std::string found) {
    wrong = std::move(found);
    return AfterStep::kStop;
  }

  /// Throws nothing: a plug-in is between here and our caller.
  static std::int32_t on_step(void* user, const dif_step_event* event) {
    auto& call = *static_cast<LoopCall*>(user);
    try {
      return call.take(event) == AfterStep::kStop ? 1 : 0;
    } catch (const std::bad_alloc&) {
      call.out_of_memory = true;
      return 1;
    }
  }
};

}  // namespace

Status PreparedProgram::run_loop(std::span<const Binding> inputs, std::span<const Binding> outputs,
                                 const LoopOptions& loop, const RunOptions& options) {
  auto raw_inputs = raw_tensors(inputs);
  auto raw_outputs = raw_tensors(outputs);
  dif_loop_options raw = {};
  raw.struct_size = sizeof(raw);
  raw.run = raw_run(*context_, raw_inputs, raw_outputs, options);
  raw.first_step = loop.first_step;
  raw.n_steps = loop.n_steps;
  raw.step_input = loop.step_input;
  raw.carries = loop.carries.data();
  raw.n_carries = static_cast<std::uint32_t>(loop.carries.size());
  raw.wants_state = loop.wants_state ? 1 : 0;
  const bool has_state = !loop.carries.empty() && loop.carries.front().output < outputs.size();
  LoopCall call = {loop, has_state ? outputs[loop.carries.front().output].type.bytes() : 0};
  raw.user = &call;
  if (loop.on_step) raw.on_step = LoopCall::on_step;
  ErrorText error;
  const dif_code code = context_->api().run_loop(handle_, &raw, error.get());
  failed_operation_ = error.operation();
  if (call.out_of_memory)
    return fail(ErrorCode::kOutOfMemory, "the system has no memory left; choose a smaller size");
  if (!call.wrong.empty())
    return fail(ErrorCode::kUnavailable, "backend {} reports {}: the plug-in is broken",
                context_->library().name(), call.wrong);
  return error.status(code, context_->library());
}

std::optional<ir::OpId> PreparedProgram::failed_operation() const {
  if (failed_operation_ == DIF_NO_OPERATION) return std::nullopt;
  return failed_operation_;
}

}  // namespace dif::runtime
