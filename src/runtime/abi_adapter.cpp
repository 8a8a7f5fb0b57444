#include "runtime/abi_adapter.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <new>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/program_file.h"
#include "runtime/abi_codes.h"
#include "runtime/abi_objects.h"
#include "runtime/abi_run.h"

using namespace dif;
using namespace dif::runtime;

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

/// Runs `body`, which runs the program, and tells the caller at which operation it failed.
template <class Body>
dif_code guarded_run(dif_prepared& prepared, dif_error* error, Body&& body) {
  prepared.executor->forget_failure();
  const dif_code code = guarded(error, body);
  if (code != DIF_OK && error != nullptr && error->struct_size >= sizeof(dif_error))
    error->operation = prepared.executor->failed_operation();
  return code;
}

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
    return guarded(error, [&]() -> Status {
      DIF_TRY(settle(*context));  // the shared memory may move
      return prepare_program(*context, options, prepared);
    });
  };
  api.prepared_destroy = [](dif_prepared* prepared) {
    static_cast<void>(settle(*prepared->context));
    delete prepared;
  };
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
      result.pinned_host_bytes =
          found.pinned_host_bytes + context.arena->pinned_run_memory_bytes() + context.host_memory_bytes();
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
    return guarded_run(*prepared, error, [&] { return run_loop(*prepared, *options); });
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
  api.host_allocate = [](dif_context* context, std::uint64_t bytes, void** memory, dif_error* error) {
    return guarded(error, [&]() -> Status {
      if (!context->device->has_copy_lane())
        return fail(ErrorCode::kUnavailable, "this device has no host memory of its own");
      DIF_ASSIGN(PinnedBuffer block, PinnedBuffer::create(*context->device, bytes));
      *memory = block.data();
      context->host_memory.emplace(block.data(), std::move(block));
      return ok();
    });
  };
  api.host_release = [](dif_context* context, void* memory) {
    static_cast<void>(settle(*context));
    context->host_memory.erase(static_cast<const std::byte*>(memory));
  };
  return api;
}

}  // namespace dif::runtime::internal
