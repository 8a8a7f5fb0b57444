#include "runtime/session.h"

#include "base/check.h"
#include "base/error.h"
#include "ir/program_file.h"
#include "runtime/abi_codes.h"

namespace dif::runtime {

Result<std::shared_ptr<Context>> Context::create(std::shared_ptr<const BackendLibrary> library,
                                                 ContextOptions options) {
  std::shared_ptr<Context> context(new Context(std::move(library), std::move(options)));
  const ContextOptions& chosen = context->options_;
  dif_context_options raw = {};
  raw.struct_size = sizeof(raw);
  raw.device = chosen.device;
  raw.threads = chosen.threads;
  raw.memory_cap_bytes = chosen.memory_cap_bytes;
  raw.cache_dir = chosen.cache_folder.empty() ? nullptr : chosen.cache_folder.c_str();
  raw.user = &context->options_;
  if (chosen.log)
    raw.log = [](void* user, std::int32_t level, const char* sentence) {
      static_cast<ContextOptions*>(user)->log(level, sentence);
    };
  if (chosen.trace)
    raw.trace = [](void* user, const dif_trace_event* event) {
      static_cast<ContextOptions*>(user)->trace(*event);
    };
  if (chosen.cancelled)
    raw.cancelled = [](void* user) -> std::int32_t {
      return static_cast<ContextOptions*>(user)->cancelled() ? 1 : 0;
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

dif_run_options raw_run(std::vector<dif_tensor>& inputs, std::vector<dif_tensor>& outputs,
                        const RunOptions& options) {
  dif_run_options raw = {};
  raw.struct_size = sizeof(raw);
  raw.flags = options.check_operations ? DIF_RUN_CHECK_OPERATIONS : 0;
  raw.inputs = inputs.data();
  raw.n_inputs = static_cast<std::uint32_t>(inputs.size());
  raw.outputs = outputs.data();
  raw.n_outputs = static_cast<std::uint32_t>(outputs.size());
  return raw;
}

}  // namespace

Result<std::unique_ptr<PreparedProgram>> PreparedProgram::prepare(
    std::shared_ptr<Context> context, const ir::Program& program,
    std::span<const ConstantBinding> constants) {
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
  dif_prepared* handle = nullptr;
  ErrorText error;
  const dif_code code = context->api().prepare(context->handle(), &raw, &handle, error.get());
  if (Status status = error.status(code, context->library()); !status)
    return with_context(std::move(status.error()), "program {}", program.name);
  if (handle == nullptr)
    return fail(ErrorCode::kUnavailable, "backend {} prepared nothing", context->library().name());
  return std::unique_ptr<PreparedProgram>(new PreparedProgram(std::move(context), handle));
}

PreparedProgram::~PreparedProgram() {
  context_->api().prepared_destroy(handle_);
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
                        raw.details == nullptr ? "{}" : raw.details};
}

Status PreparedProgram::run(std::span<const Binding> inputs, std::span<const Binding> outputs,
                            const RunOptions& options) {
  auto raw_inputs = raw_tensors(inputs);
  auto raw_outputs = raw_tensors(outputs);
  const dif_run_options raw = raw_run(raw_inputs, raw_outputs, options);
  ErrorText error;
  const dif_code code = context_->api().run(handle_, &raw, error.get());
  failed_operation_ = error.operation();
  return error.status(code, context_->library());
}

Status PreparedProgram::run_loop(std::span<const Binding> inputs, std::span<const Binding> outputs,
                                 const LoopOptions& loop, const RunOptions& options) {
  auto raw_inputs = raw_tensors(inputs);
  auto raw_outputs = raw_tensors(outputs);
  dif_loop_options raw = {};
  raw.struct_size = sizeof(raw);
  raw.run = raw_run(raw_inputs, raw_outputs, options);
  raw.first_step = loop.first_step;
  raw.n_steps = loop.n_steps;
  raw.step_input = loop.step_input;
  raw.carries = loop.carries.data();
  raw.n_carries = static_cast<std::uint32_t>(loop.carries.size());
  raw.wants_state = loop.wants_state ? 1 : 0;
  raw.user = const_cast<LoopOptions*>(&loop);
  if (loop.on_step)
    raw.on_step = [](void* user, const dif_step_event* event) -> std::int32_t {
      const StepEvent step = {event->step,
                              event->all_finite != 0,
                              {static_cast<const std::byte*>(event->carried), event->carried_bytes}};
      return static_cast<const LoopOptions*>(user)->on_step(step) == AfterStep::kStop ? 1 : 0;
    };
  ErrorText error;
  const dif_code code = context_->api().run_loop(handle_, &raw, error.get());
  failed_operation_ = error.operation();
  return error.status(code, context_->library());
}

std::optional<ir::OpId> PreparedProgram::failed_operation() const {
  if (failed_operation_ == DIF_NO_OPERATION) return std::nullopt;
  return failed_operation_;
}

}  // namespace dif::runtime
