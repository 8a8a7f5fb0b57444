#include "runtime/abi_run.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/checked_math.h"
#include "runtime/abi_codes.h"
#include "runtime/abi_objects.h"
#include "runtime/finite.h"

namespace dif::runtime {

namespace {

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
    if (place.pinned != from) std::memcpy(place.pinned, from, bytes);
    return context_.device->upload_later(Lane::kRun, place.device, place.pinned, bytes);
  }
  Status download(void* to, const Place& place, std::uint64_t bytes) {
    if (place.pinned == nullptr) return context_.device->download(to, place.device, bytes);
    DIF_TRY(context_.device->download_later(Lane::kRun, place.pinned, place.device, bytes));
    DIF_TRY(context_.device->synchronize());
    if (place.pinned != to) std::memcpy(to, place.pinned, bytes);
    return ok();
  }

 private:
  dif_context& context_;
  Place next_;
};

/// Binds the tensors of one run to device memory: host tensors are used in place where the device can,
/// otherwise they get a place in the memory that runs take turns with. What lies in the context's own host
/// memory is copied from and to there.
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
    RunMemory::Place place = memory_.take(tensor.bytes);
    if (context_.is_own_host_memory(tensor.data, tensor.bytes))
      place.pinned = static_cast<std::byte*>(tensor.data);
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
  /// The same behind the run, beside what comes after it. Pre: can_download_later().
  Status download_later() {
    for (const Copy& copy : copies_)
      DIF_TRY(context_.device->download_later(Lane::kCopy, copy.host, copy.place.device, copy.bytes));
    return ok();
  }
  bool can_download_later() const {
    return context_.device->has_copy_lane() && copies_.size() == views_.size() &&
           std::ranges::all_of(copies_, [](const Copy& copy) { return copy.place.pinned == copy.host; });
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

/// What went ahead is waited for, but where these are the same inputs and outputs of the same program: its
/// outputs then lie where no input is written, and the run waits for them by itself.
Status bind(dif_prepared& prepared, const dif_run_options& options, RunMemory& memory, Binding& inputs,
            Binding& outputs) {
  dif_context& context = *prepared.context;
  const ir::Program& program = prepared.executor->program();
  DIF_TRY(check_size(options.struct_size, sizeof(dif_run_options), "dif_run_options"));
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
  const std::uint64_t input_room = room;
  for (std::uint32_t i = 0; i < options.n_outputs; ++i)
    room = saturating_add(
        room, Binding::room(context, element(options.outputs, i), program.type(program.outputs[i].value)));
  if (context.ahead.prepared != &prepared || context.ahead.input_room != input_room ||
      room > context.arena->run_memory_bytes() || context.pins_run_memory())
    DIF_TRY(settle(context));
  context.ahead.input_room = input_room;
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

/// The loop over steps. Carried values and the step number live in buffers of the loop.
class Loop {
 public:
  Loop(dif_prepared& prepared, const dif_loop_options& options)
      : prepared_(prepared),
        device_(*prepared.context->device),
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
    if ((options_.run.flags & ~DIF_RUN_CHECK_OPERATIONS) != 0)
      return invalid_input("run flags {:#x} of a loop are unknown", options_.run.flags);
    DIF_TRY(settle(context_));
    DIF_TRY(bind(prepared_, options_.run, memory_, inputs_, outputs_));
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

  dif_prepared& prepared_;
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

Status settle(dif_context& context) {
  dif_prepared* const prepared = std::exchange(context.ahead.prepared, nullptr);
  if (prepared == nullptr) return ok();
  DIF_TRY(context.ahead.returned->synchronize());
  return prepared->executor->complete();
}

namespace {

/// The run before is waited for once this one is on its way: then its outputs reach the host beside the
/// inputs of this one.
Status run_ahead(dif_prepared& prepared, Binding& inputs, Binding& outputs, const RunHooks& hooks) {
  dif_context& context = *prepared.context;
  RunAhead& ahead = context.ahead;
  for (auto* const marker : {&ahead.computed, &ahead.returned})
    if (*marker == nullptr) {
      DIF_ASSIGN(*marker, context.device->make_marker());
    }
  if (ahead.prepared != nullptr) DIF_TRY(ahead.returned->wait(Lane::kRun));
  DIF_TRY(prepared.executor->start(inputs.views(), outputs.views(), hooks));
  DIF_TRY(settle(context));
  DIF_TRY(ahead.computed->record(Lane::kRun));
  DIF_TRY(ahead.computed->wait(Lane::kCopy));
  DIF_TRY(outputs.download_later());
  DIF_TRY(ahead.returned->record(Lane::kCopy));
  ahead.prepared = &prepared;
  return ok();
}

Status run_bound(dif_prepared& prepared, const dif_run_options& options) {
  dif_context& context = *prepared.context;
  RunMemory memory(context);
  Binding inputs(context, memory), outputs(context, memory);
  DIF_TRY(bind(prepared, options, memory, inputs, outputs));
  const RunHooks hooks = context.hooks(options.flags);
  if ((options.flags & DIF_RUN_AHEAD) != 0 && outputs.can_download_later() && !hooks.trace &&
      !hooks.check_operations)
    return run_ahead(prepared, inputs, outputs, hooks);
  DIF_TRY(settle(context));
  DIF_TRY(prepared.executor->run(inputs.views(), outputs.views(), hooks));
  return outputs.download();
}

}  // namespace

Status run_once(dif_prepared& prepared, const dif_run_options& options) {
  constexpr std::uint32_t kKnownFlags = DIF_RUN_CHECK_OPERATIONS | DIF_RUN_AHEAD;
  if ((options.flags & ~kKnownFlags) != 0) return invalid_input("run flags {:#x} are unknown", options.flags);
  Status status = run_bound(prepared, options);
  if (status) return status;
  // Nothing that was on its way may reach the caller's memory later.
  dif_context& context = *prepared.context;
  context.ahead.prepared = nullptr;
  static_cast<void>(context.device->synchronize());
  if (context.ahead.returned != nullptr && context.ahead.returned->record(Lane::kCopy))
    static_cast<void>(context.ahead.returned->synchronize());
  return status;
}

Status run_loop(dif_prepared& prepared, const dif_loop_options& options) {
  return Loop(prepared, options).run();
}

}  // namespace dif::runtime
