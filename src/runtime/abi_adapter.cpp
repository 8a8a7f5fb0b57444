#include "runtime/abi_adapter.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <new>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/checked_math.h"
#include "ir/program_file.h"
#include "runtime/abi_codes.h"
#include "runtime/executor.h"
#include "runtime/finite.h"

using namespace dif;
using namespace dif::runtime;

/// A device, its shared memory, and what the host wants to be told.
struct dif_context {
  const BackendDefinition* definition = nullptr;
  dif_context_options options = {};
  std::unique_ptr<Device> device;
  std::unique_ptr<SharedArena> arena;
  WeightOptions weights;
  bool told_nothing_computed = false;
  std::vector<KernelEntry> kernels;  ///< of the definition, then of the host where the caller allows it

  bool pins_run_memory() const {
    return (options.flags & DIF_CONTEXT_PINNED_IO) != 0 && device->has_copy_lane();
  }
  RunHooks hooks(std::uint32_t flags) const {
    RunHooks hooks;
    hooks.check_operations = (flags & DIF_RUN_CHECK_OPERATIONS) != 0;
    if (options.cancelled != nullptr)
      hooks.cancelled = [this] { return options.cancelled(options.user) != 0; };
    if (options.trace != nullptr)
      hooks.trace = [this](const OpTrace& trace) {
        const dif_trace_event event = {sizeof(event), trace.op, trace.op_name, trace.kernel,
                                       trace.nanoseconds};
        options.trace(options.user, &event);
      };
    return hooks;
  }
};

struct dif_prepared {
  dif_context* context = nullptr;
  std::unique_ptr<Executor> executor;
};

struct dif_value {
  dif_context* context = nullptr;
  ir::TensorType type;
  DeviceBuffer buffer;
};

namespace {

/// Writes the sentence into the caller's buffer, cut before a character that does not fit.
void write_error(dif_error* error, std::string_view sentence) {
  if (error == nullptr || error->text == nullptr || error->text_size == 0) return;
  std::size_t length = std::min(sentence.size(), error->text_size - 1);
  while (length > 0 && length < sentence.size() &&
         (static_cast<unsigned char>(sentence[length]) & 0xC0) == 0x80)
    --length;
  std::memcpy(error->text, sentence.data(), length);
  error->text[length] = '\0';
}

/// Runs `body` (returning Status) and turns its error, or an exception, into code and sentence.
template <class Body>
dif_code guarded(dif_error* error, Body&& body) {
  try {
    Status status = body();
    if (status) return DIF_OK;
    write_error(error, status.error().message);
    return to_abi(status.error().code);
  } catch (const std::bad_alloc&) {
    write_error(error, "the system has no memory left; choose a smaller size");
    return DIF_ERROR_MEMORY;
  } catch (const std::exception& exception) {
    write_error(error, exception.what());
    return DIF_ERROR_INTERNAL;
  }
}

/// A structure that ends before `needed` bytes comes from a host that we do not understand.
Status check_size(std::uint32_t found, std::size_t needed, const char* what) {
  if (found < needed) return invalid_input("{} has {} bytes, at least {} are needed", what, found, needed);
  return ok();
}

/// Element i of an array of structures, which stand struct_size bytes apart. Pre: check_array passed.
template <class T>
T& element(T* first, std::uint32_t i) {
  using Byte = std::conditional_t<std::is_const_v<T>, const std::byte, std::byte>;
  return *reinterpret_cast<T*>(reinterpret_cast<Byte*>(first) + std::size_t{i} * first->struct_size);
}

template <class T>
Status check_array(const T* first, std::uint32_t count, const char* what) {
  if (count == 0) return ok();
  if (first == nullptr) return invalid_input("{} {} are announced, none are there", count, what);
  return check_size(first->struct_size, sizeof(T), what);
}

std::uint64_t weight_cache_bytes(const dif_context_options& options) {
  if (options.weight_cache_mib == DIF_WEIGHT_CACHE_OFF) return 0;
  return options.weight_cache_mib == 0 ? UINT64_MAX : std::uint64_t{options.weight_cache_mib} << 20;
}

Result<std::vector<HostConstant>> read_constants(const ir::Program& program,
                                                 const dif_prepare_options& options, std::uint32_t flags) {
  const bool plan_only = (flags & DIF_PREPARE_PLAN_ONLY) != 0;
  if (options.n_constants != program.constants.size())
    return invalid_input("{} constants are bound, the program has {}", options.n_constants,
                         program.constants.size());
  DIF_TRY(check_array(options.constants, options.n_constants, "dif_constant"));
  std::vector<HostConstant> constants;
  for (std::uint32_t i = 0; i < options.n_constants; ++i) {
    const dif_constant& constant = element(options.constants, i);
    const ir::ValueInfo& value = program.values[program.constants[i]];
    DIF_ASSIGN(const ir::TensorType type, from_abi(constant.type));
    if (constant.name == nullptr || value.name != constant.name)
      return invalid_input("constant {} is named {}, the program calls it {}", i,
                           constant.name == nullptr ? "nothing" : constant.name, value.name);
    if (type != value.type)
      return invalid_input("constant {} is {}, the program wants {}", value.name, type, value.type);
    if (constant.bytes != type.bytes() || (constant.data == nullptr && constant.bytes != 0 && !plan_only))
      return invalid_input("constant {} has {} bytes, {} needs {}", value.name, constant.bytes, type,
                           type.bytes());
    constants.push_back({constant.data, constant.bytes, constant.fd, constant.file_offset});
  }
  return constants;
}

/// Of a host that knows them; another one has no wishes.
Result<ExecutionOptions> read_execution(const dif_prepare_options& options) {
  constexpr std::size_t kEnd = offsetof(dif_prepare_options, execution) + sizeof(options.execution);
  if (options.struct_size < kEnd || options.execution == nullptr) return ExecutionOptions();
  return from_abi(*options.execution);
}

/// The flags of a host that knows them; those of version 1.0 have none.
Result<std::uint32_t> read_flags(const dif_prepare_options& options) {
  if (options.struct_size < offsetof(dif_prepare_options, flags) + sizeof(options.flags)) return 0;
  if ((options.flags & ~DIF_PREPARE_PLAN_ONLY) != 0)
    return invalid_input("prepare flags {:#x} are unknown", options.flags);
  return options.flags;
}

/// Says what would help where operations are missing that the host has.
tl::unexpected<Error> explained(const dif_context& context, Error error) {
  const bool allowed = (context.options.flags & DIF_CONTEXT_ALLOW_HOST_FALLBACK) != 0;
  if (error.code == ErrorCode::kDeclined && !allowed && context.definition->host_fallback != nullptr)
    return with_context(std::move(error), "--allow-host-fallback runs what a device declines on the host");
  return tl::unexpected<Error>(std::move(error));
}

/// Once in a context, when something is prepared that is to run.
void tell_nothing_computed(dif_context& context) {
  if (context.definition->executes || context.options.log == nullptr ||
      std::exchange(context.told_nothing_computed, true))
    return;
  const std::string sentence =
      fmt::format("backend {} computes nothing: all results are zeros", context.definition->name);
  context.options.log(context.options.user, DIF_LOG_WARNING, sentence.c_str());
}

void tell_host_operations(const dif_context& context, const std::string& program,
                          const ExecutorReport& report) {
  if (report.host_operations == 0 || context.options.log == nullptr) return;
  const std::string sentence =
      fmt::format("program {}: {} operations run on the host, with copies to and from the device", program,
                  report.host_operations);
  context.options.log(context.options.user, DIF_LOG_WARNING, sentence.c_str());
}

Status prepare_program(dif_context& context, const dif_prepare_options* options, dif_prepared** prepared) {
  DIF_TRY(check_size(options->struct_size, offsetof(dif_prepare_options, flags), "dif_prepare_options"));
  DIF_ASSIGN(const std::uint32_t flags, read_flags(*options));
  const std::span bytes(static_cast<const std::byte*>(options->program), options->program_bytes);
  DIF_ASSIGN(ir::Program program, ir::decode(bytes));
  DIF_ASSIGN(std::vector<HostConstant> constants, read_constants(program, *options, flags));
  const BackendDefinition& definition = *context.definition;
  ExecutorOptions executor_options = {context.kernels, definition.executes, {}};
  executor_options.pitches = definition.pitches;
  if (definition.group_kernels != nullptr) {
    executor_options.group_kernels = definition.group_kernels();
    executor_options.fusion = definition.fusion;
  }
  executor_options.weights = context.weights;
  DIF_ASSIGN(executor_options.execution, read_execution(*options));
  executor_options.plan_only = (flags & DIF_PREPARE_PLAN_ONLY) != 0;
  executor_options.cap_bytes = context.options.memory_cap_bytes;
  if (options->release != nullptr)
    executor_options.release = [options](std::uint32_t i) { options->release(options->user, i); };
  auto result = std::make_unique<dif_prepared>();
  result->context = &context;
  const std::string name = program.name;
  auto executor = Executor::prepare(std::move(program), std::move(constants), *context.device, *context.arena,
                                    executor_options);
  if (!executor) return explained(context, std::move(executor.error()));
  result->executor = std::move(*executor);
  tell_host_operations(context, name, result->executor->report());
  if (!executor_options.plan_only) tell_nothing_computed(context);
  *prepared = result.release();
  return ok();
}

/// Where host tensors of one run are on the device, and where the caller asked for it in pinned memory.
class RunMemory {
 public:
  struct Place {
    BufferView device;
    std::byte* pinned = nullptr;
  };

  explicit RunMemory(dif_context& context) : context_(context) {}

  /// Errors: OutOfMemory.
  Status reserve(std::uint64_t bytes) {
    DIF_ASSIGN(next_.device, context_.arena->run_memory(bytes));
    if (!context_.pins_run_memory()) return ok();
    DIF_ASSIGN(next_.pinned, context_.arena->pinned_run_memory(bytes));
    return ok();
  }
  static std::uint64_t room(std::uint64_t bytes) {
    constexpr std::uint64_t kAlignment = 256;
    return align_up(std::max<std::uint64_t>(bytes, 1), kAlignment);
  }
  /// Pre: reserved is room(bytes) of each.
  Place take(std::uint64_t bytes) {
    const Place place = next_;
    next_.device.offset += room(bytes);
    if (next_.pinned != nullptr) next_.pinned += room(bytes);
    return place;
  }
  Status upload(const Place& place, const void* from, std::uint64_t bytes) {
    if (place.pinned == nullptr) return context_.device->upload(place.device, from, bytes);
    std::memcpy(place.pinned, from, bytes);
    return context_.device->upload_later(Lane::kRun, place.device, place.pinned, bytes);
  }
  Status download(void* to, const Place& place, std::uint64_t bytes) {
    if (place.pinned == nullptr) return context_.device->download(to, place.device, bytes);
    DIF_TRY(context_.device->download(place.pinned, place.device, bytes));
    std::memcpy(to, place.pinned, bytes);
    return ok();
  }

 private:
  dif_context& context_;
  Place next_;
};

/// Binds the tensors of one run to device memory: host tensors are used in place where the device can,
/// otherwise they get a place in the memory that runs take turns with.
class Binding {
 public:
  Binding(dif_context& context, RunMemory& memory) : context_(context), memory_(memory) {}

  /// What add() will take of that memory.
  static std::uint64_t room(const dif_context& context, const dif_tensor& tensor,
                            const ir::TensorType& expected) {
    if (tensor.value != nullptr || is_in_place(context, tensor, expected)) return 0;
    return RunMemory::room(expected.bytes());
  }

  Status add(const dif_tensor& tensor, const ir::TensorType& expected, std::string_view what, bool is_input) {
    DIF_ASSIGN(const ir::TensorType type, from_abi(tensor.type));
    if (type != expected) return invalid_input("{} is {}, the program wants {}", what, type, expected);
    if ((tensor.data == nullptr) == (tensor.value == nullptr) && type.bytes() != 0)
      return invalid_input("{} needs either host memory or a value", what);
    if (tensor.value != nullptr) {
      if (tensor.value->context != &context_) return invalid_input("{} is a value of another context", what);
      if (tensor.value->type != type)
        return invalid_input("{} is a value of type {}", what, tensor.value->type);
      views_.push_back(tensor.value->buffer.view());
      return ok();
    }
    if (tensor.bytes != type.bytes())
      return invalid_input("{} has {} bytes, {} needs {}", what, tensor.bytes, type, type.bytes());
    if (is_in_place(context_, tensor, type)) {
      views_.push_back({tensor.data, 0});
      return ok();
    }
    const RunMemory::Place place = memory_.take(tensor.bytes);
    if (is_input) DIF_TRY(memory_.upload(place, tensor.data, tensor.bytes));
    views_.push_back(place.device);
    copies_.push_back({place, tensor.data, tensor.bytes});
    return ok();
  }

  /// Brings outputs that got a place of their own to the host.
  Status download() {
    for (const Copy& copy : copies_) DIF_TRY(memory_.download(copy.host, copy.place, copy.bytes));
    return ok();
  }

  std::vector<BufferView>& views() { return views_; }

 private:
  struct Copy {
    RunMemory::Place place;
    void* host = nullptr;
    std::uint64_t bytes = 0;
  };

  static bool is_in_place(const dif_context& context, const dif_tensor& tensor, const ir::TensorType& type) {
    const bool aligned = reinterpret_cast<std::uintptr_t>(tensor.data) % dtype_size(type.dtype) == 0;
    return context.device->addresses_host_memory() && aligned;
  }

  dif_context& context_;
  RunMemory& memory_;
  std::vector<BufferView> views_;
  std::vector<Copy> copies_;
};

Status bind(const dif_context& context, const dif_run_options& options, const ir::Program& program,
            RunMemory& memory, Binding& inputs, Binding& outputs) {
  DIF_TRY(check_size(options.struct_size, sizeof(dif_run_options), "dif_run_options"));
  if ((options.flags & ~DIF_RUN_CHECK_OPERATIONS) != 0)
    return invalid_input("run flags {:#x} are unknown", options.flags);
  if (options.n_inputs != program.inputs.size())
    return invalid_input("{} inputs are bound, the program has {}", options.n_inputs, program.inputs.size());
  if (options.n_outputs != program.outputs.size())
    return invalid_input("{} outputs are bound, the program has {}", options.n_outputs,
                         program.outputs.size());
  DIF_TRY(check_array(options.inputs, options.n_inputs, "dif_tensor"));
  DIF_TRY(check_array(options.outputs, options.n_outputs, "dif_tensor"));
  std::uint64_t room = 0;
  for (std::uint32_t i = 0; i < options.n_inputs; ++i)
    room = saturating_add(
        room, Binding::room(context, element(options.inputs, i), program.type(program.inputs[i])));
  for (std::uint32_t i = 0; i < options.n_outputs; ++i)
    room = saturating_add(
        room, Binding::room(context, element(options.outputs, i), program.type(program.outputs[i].value)));
  if (room != 0) DIF_TRY(memory.reserve(room));
  for (std::uint32_t i = 0; i < options.n_inputs; ++i) {
    const ir::ValueInfo& value = program.values[program.inputs[i]];
    DIF_TRY(inputs.add(element(options.inputs, i), value.type, "input " + value.name, true));
  }
  for (std::uint32_t i = 0; i < options.n_outputs; ++i) {
    const ir::Output& output = program.outputs[i];
    DIF_TRY(
        outputs.add(element(options.outputs, i), program.type(output.value), "output " + output.name, false));
  }
  return ok();
}

Status run_once(dif_prepared& prepared, const dif_run_options& options) {
  dif_context& context = *prepared.context;
  RunMemory memory(context);
  Binding inputs(context, memory), outputs(context, memory);
  DIF_TRY(bind(context, options, prepared.executor->program(), memory, inputs, outputs));
  DIF_TRY(prepared.executor->run(inputs.views(), outputs.views(), prepared.context->hooks(options.flags)));
  return outputs.download();
}

/// Runs `body`, which runs the program, and tells the caller at which operation it failed.
template <class Body>
dif_code guarded_run(dif_prepared& prepared, dif_error* error, Body&& body) {
  prepared.executor->forget_failure();
  const dif_code code = guarded(error, body);
  if (code != DIF_OK && error != nullptr && error->struct_size >= sizeof(dif_error))
    error->operation = prepared.executor->failed_operation();
  return code;
}

/// The loop over steps. Carried values and the step number live in buffers of the loop.
class Loop {
 public:
  Loop(dif_prepared& prepared, const dif_loop_options& options)
      : device_(*prepared.context->device),
        executor_(*prepared.executor),
        options_(options),
        hooks_(prepared.context->hooks(options.run.flags)),
        context_(*prepared.context),
        memory_(context_),
        inputs_(context_, memory_),
        outputs_(context_, memory_) {}

  Status run() {
    DIF_TRY(check_size(options_.struct_size, sizeof(dif_loop_options), "dif_loop_options"));
    if (options_.flags != 0) return invalid_input("loop flags {:#x} are unknown", options_.flags);
    if (options_.n_steps == 0) return invalid_input("a loop needs at least one step");
    if (std::uint64_t{options_.first_step} + options_.n_steps - 1 > INT32_MAX)
      return invalid_input("step numbers from {}, {} of them, do not fit an i32", options_.first_step,
                           options_.n_steps);
    if (options_.n_carries != 0 && options_.carries == nullptr)
      return invalid_input("{} carries are announced, none are there", options_.n_carries);
    DIF_TRY(bind(context_, options_.run, program(), memory_, inputs_, outputs_));
    DIF_TRY(own_step_number());
    for (std::uint32_t i = 0; i < options_.n_carries; ++i) DIF_TRY(own_carry(options_.carries[i]));
    DIF_TRY(runs_ahead() ? run_ahead() : run_in_turn());
    return outputs_.download();
  }

 private:
  const ir::Program& program() const { return executor_.program(); }

  Status own_step_number() {
    const std::uint32_t input = options_.step_input;
    if (input >= program().inputs.size() ||
        program().type(program().inputs[input]) != ir::TensorType{DType::kI32, {1}})
      return invalid_input("the step number must be an i32[1] input, input {} is not", input);
    DIF_ASSIGN(step_number_, DeviceBuffer::create(device_, sizeof(std::int32_t)));
    inputs_.views()[input] = step_number_.view();
    return ok();
  }

  Status own_carry(const dif_carry& carry) {
    if (carry.output >= program().outputs.size() || carry.input >= program().inputs.size() ||
        program().type(program().outputs[carry.output].value) !=
            program().type(program().inputs[carry.input]))
      return invalid_input("output {} cannot be carried into input {}", carry.output, carry.input);
    if (carry.input == options_.step_input)
      return invalid_input("input {} is the step number, nothing can be carried into it", carry.input);
    for (std::uint32_t i = 0; i < carried_.size(); ++i)
      if (options_.carries[i].input == carry.input)
        return invalid_input("two outputs are carried into input {}", carry.input);
    const std::uint64_t bytes = program().type(program().inputs[carry.input]).bytes();
    DIF_ASSIGN(DeviceBuffer buffer, DeviceBuffer::create(device_, bytes));
    DIF_TRY(device_.copy(buffer.view(), inputs_.views()[carry.input], bytes));
    inputs_.views()[carry.input] = buffer.view();
    carried_.push_back(std::move(buffer));
    return ok();
  }

  /// Whoever wants the state of each step, or to know about operations, waits for each step.
  bool runs_ahead() const {
    return options_.n_carries != 0 && options_.wants_state == 0 && !hooks_.trace && !hooks_.check_operations;
  }

  using Probes = std::array<std::unique_ptr<FiniteProbe>, 2>;

  /// The host submits a step while the device is still busy with the one before, whose result it hears of
  /// later: two steps are under way at most.
  Status run_ahead() {
    Probes probes;
    for (auto& probe : probes) {
      DIF_ASSIGN(probe, device_.finite_probe());
      if (probe == nullptr) return run_in_turn();
    }
    Status status = run_ahead(probes);
    // What is still under way writes to the probes.
    if (!status) static_cast<void>(device_.synchronize());
    return status;
  }

  Status run_ahead(const Probes& probes) {
    for (std::uint32_t i = 0; i < options_.n_steps; ++i) {
      DIF_TRY(start(options_.first_step + i));
      for (std::uint32_t k = 0; k < options_.n_carries; ++k)
        DIF_TRY(probes[i % 2]->submit({carried_[k].view(), &carried_type(k)}));
      if (i != 0) DIF_TRY(hear_of(options_.first_step + i - 1, *probes[(i - 1) % 2]));
    }
    return hear_of(options_.first_step + options_.n_steps - 1, *probes[(options_.n_steps - 1) % 2]);
  }

  Status run_in_turn() {
    for (std::uint32_t i = 0; i < options_.n_steps; ++i) DIF_TRY(step(options_.first_step + i));
    return ok();
  }

  const ir::TensorType& carried_type(std::uint32_t i) const {
    return program().type(program().inputs[options_.carries[i].input]);
  }

  Status start(std::uint32_t number) {
    const auto value = static_cast<std::int32_t>(number);
    DIF_TRY(device_.upload(step_number_.view(), &value, sizeof(value)));
    DIF_TRY(executor_.start(inputs_.views(), outputs_.views(), hooks_));
    for (std::uint32_t i = 0; i < options_.n_carries; ++i)
      DIF_TRY(device_.copy(carried_[i].view(), outputs_.views()[options_.carries[i].output],
                           carried_[i].bytes()));
    return ok();
  }

  Status hear_of(std::uint32_t number, FiniteProbe& probe) {
    DIF_ASSIGN(const bool all_finite, probe.wait());
    DIF_TRY(executor_.complete());
    return tell(number, all_finite);
  }

  Status step(std::uint32_t number) {
    DIF_TRY(start(number));
    DIF_TRY(device_.synchronize());
    DIF_TRY(executor_.complete());
    bool finite = true;
    for (std::uint32_t i = 0; i < options_.n_carries; ++i) {
      state_.resize(carried_[i].bytes());
      DIF_TRY(device_.download(state_.data(), carried_[i].view(), state_.size()));
      finite = finite && all_finite(carried_type(i).dtype, state_);
      if (i == 0 && options_.wants_state != 0) first_state_ = state_;
    }
    return tell(number, finite);
  }

  Status tell(std::uint32_t number, bool finite) {
    const dif_step_event event = {
        sizeof(event),      number, finite ? 1U : 0U, 0, first_state_.empty() ? nullptr : first_state_.data(),
        first_state_.size()};
    if (options_.on_step == nullptr || options_.on_step(options_.user, &event) == 0) return ok();
    if (!finite) return fail(ErrorCode::kNonFinite, "step {}: the result holds NaN or infinity", number);
    return fail(ErrorCode::kCancelled, "stopped after step {}", number);
  }

  Device& device_;
  Executor& executor_;
  const dif_loop_options& options_;
  RunHooks hooks_;
  dif_context& context_;
  RunMemory memory_;
  Binding inputs_;
  Binding outputs_;
  DeviceBuffer step_number_;
  std::vector<DeviceBuffer> carried_;
  std::vector<std::byte> state_;
  std::vector<std::byte> first_state_;
};

}  // namespace

namespace dif::runtime {

Status expect_only_device(const DeviceOptions& options) {
  if (options.device == 0) return ok();
  return fail(ErrorCode::kUnavailable, "there is no device {}; the only one is 0", options.device);
}

}  // namespace dif::runtime

namespace dif::runtime::internal {

dif_code probe(const BackendDefinition& definition, std::string& document, const char** json,
               dif_error* error) {
  return guarded(error, [&]() -> Status {
    if (document.empty()) document = definition.probe();
    *json = document.c_str();
    return ok();
  });
}

dif_code context_create(const BackendDefinition& definition, const dif_context_options* options,
                        dif_context** context, dif_error* error) {
  return guarded(error, [&]() -> Status {
    // Hosts of version 1.0 end before weight_cache_mib.
    constexpr std::size_t kLeast = offsetof(dif_context_options, weight_cache_mib);
    constexpr std::uint32_t kKnownFlags =
        DIF_CONTEXT_ALLOW_HOST_FALLBACK | DIF_CONTEXT_KEEP_WEIGHT_CACHE | DIF_CONTEXT_PINNED_IO;
    DIF_TRY(check_size(options->struct_size, kLeast, "dif_context_options"));
    auto result = std::make_unique<dif_context>();
    if ((options->flags & ~kKnownFlags) != 0)
      return invalid_input("context flags {:#x} are unknown", options->flags);
    result->definition = &definition;
    std::memcpy(&result->options, options, std::min<std::size_t>(options->struct_size, sizeof(*options)));
    if (result->options.weights != nullptr) {
      DIF_ASSIGN(result->weights, from_abi(*result->options.weights));
      result->options.weights = nullptr;  // valid in this call
    }
    const std::span<const KernelEntry> own = definition.kernels();
    result->kernels.assign(own.begin(), own.end());
    if ((options->flags & DIF_CONTEXT_ALLOW_HOST_FALLBACK) != 0 && definition.host_fallback != nullptr) {
      const std::span<const KernelEntry> host = definition.host_fallback();
      result->kernels.insert(result->kernels.end(), host.begin(), host.end());
    }
    DeviceOptions device_options = {options->device,
                                    options->threads,
                                    options->memory_cap_bytes,
                                    weight_cache_bytes(result->options),
                                    options->cache_dir == nullptr ? "" : options->cache_dir,
                                    (options->flags & DIF_CONTEXT_KEEP_WEIGHT_CACHE) != 0,
                                    {},
                                    result->weights.least_free_bytes};
    if (options->log != nullptr)
      device_options.log = [log = options->log, user = options->user](int level,
                                                                      const std::string& sentence) {
        log(user, level, sentence.c_str());
      };
    DIF_ASSIGN(result->device, definition.create_device(device_options));
    result->arena = std::make_unique<SharedArena>(*result->device);
    *context = result.release();
    return ok();
  });
}

dif_backend_api common_api(const BackendDefinition& definition) {
  dif_backend_api api = {};
  api.struct_size = sizeof(api);
  api.abi_major = DIF_ABI_MAJOR;
  api.abi_minor = DIF_ABI_MINOR;
  api.name = definition.name;
  api.version = DIF_VERSION;
  api.prefers = definition.prefers == nullptr ? 0 : definition.prefers();
  api.context_destroy = [](dif_context* context) { delete context; };
  api.prepare = [](dif_context* context, const dif_prepare_options* options, dif_prepared** prepared,
                   dif_error* error) {
    return guarded(error, [&] { return prepare_program(*context, options, prepared); });
  };
  api.prepared_destroy = [](dif_prepared* prepared) { delete prepared; };
  api.report = [](const dif_prepared* prepared, dif_report* report, dif_error* error) {
    return guarded(error, [&]() -> Status {
      const std::uint32_t size = report->struct_size;
      DIF_TRY(check_size(size, offsetof(dif_report, context_arena_bytes), "dif_report"));
      DIF_TRY(prepared->executor->finish_loading());
      const ExecutorReport& found = prepared->executor->report();
      const dif_context& context = *prepared->context;
      dif_report result = {};
      result.struct_size = size;
      result.n_operations = static_cast<std::uint32_t>(prepared->executor->program().ops.size());
      result.arena_bytes = found.arena_bytes;
      result.workspace_bytes = found.workspace_bytes;
      result.resident_bytes = found.resident_bytes;
      result.streamed_bytes = found.streamed_bytes;
      result.prepacked_bytes = found.prepacked_bytes;
      result.pinned_host_bytes = found.pinned_host_bytes + context.arena->pinned_run_memory_bytes();
      result.details = found.details.c_str();
      result.context_arena_bytes = context.arena->arena_bytes();
      result.context_workspace_bytes = context.arena->workspace_bytes();
      result.context_peak_bytes = context.device->peak_bytes();
      result.n_host_operations = found.host_operations;
      result.direct_bytes = prepared->executor->direct_bytes();
      const DeviceCounters counters = context.device->counters();
      result.context_allocations = counters.allocations;
      result.context_kernel_launches = counters.launches;
      result.context_graph_launches = counters.graph_launches;
      result.context_synchronizations = counters.synchronizations;
      result.context_copies = counters.copies;
      std::memcpy(report, &result, std::min<std::size_t>(size, sizeof(result)));
      return ok();
    });
  };
  api.run = [](dif_prepared* prepared, const dif_run_options* options, dif_error* error) {
    return guarded_run(*prepared, error, [&] { return run_once(*prepared, *options); });
  };
  api.run_loop = [](dif_prepared* prepared, const dif_loop_options* options, dif_error* error) {
    return guarded_run(*prepared, error, [&] { return Loop(*prepared, *options).run(); });
  };
  api.value_create = [](dif_context* context, const dif_tensor_type* type, dif_value** value,
                        dif_error* error) {
    return guarded(error, [&]() -> Status {
      auto result = std::make_unique<dif_value>();
      result->context = context;
      DIF_ASSIGN(result->type, from_abi(*type));
      DIF_ASSIGN(result->buffer, DeviceBuffer::create(*context->device, result->type.bytes()));
      *value = result.release();
      return ok();
    });
  };
  api.value_destroy = [](dif_value* value) { delete value; };
  api.value_write = [](dif_value* value, const void* data, std::uint64_t bytes, dif_error* error) {
    return guarded(error, [&]() -> Status {
      if (bytes != value->buffer.bytes())
        return invalid_input("{} bytes are written to a value of {} bytes", bytes, value->buffer.bytes());
      return value->context->device->upload(value->buffer.view(), data, bytes);
    });
  };
  api.value_read = [](const dif_value* value, void* data, std::uint64_t bytes, dif_error* error) {
    return guarded(error, [&]() -> Status {
      if (bytes != value->buffer.bytes())
        return invalid_input("{} bytes are read from a value of {} bytes", bytes, value->buffer.bytes());
      return value->context->device->download(data, value->buffer.view(), bytes);
    });
  };
  return api;
}

}  // namespace dif::runtime::internal
