/// A complete backend for a handful of element-wise operations on f32. It knows include/dif/backend_abi.h and
/// the code that flatc makes of schemas/difir.fbs, nothing else of the project. README.md builds and runs it.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <new>
#include <vector>

#define DIF_BACKEND_IMPLEMENTATION
#include "dif/backend_abi.h"
#include "difir_generated.h"

namespace ir = dif::schema;
using Tensor = std::vector<float>;  // i32 elements, as of a step number, are kept as bits

/// What this backend computes: z[i] = compute(x[i], y[i], value) for tensors of one shape.
struct Function {
  const char* name;
  float (*compute)(float x, float y, float value);
};
constexpr Function kFunctions[] = {
    {"add", [](float x, float y, float) { return x + y; }},
    {"mul", [](float x, float y, float) { return x * y; }},
    {"add_scalar", [](float x, float, float value) { return x + value; }},
    {"mul_scalar", [](float x, float, float value) { return x * value; }},
    {"silu", [](float x, float, float) { return x / (1 + std::exp(-x)); }},
};

struct Step {
  const Function* function;
  std::uint32_t x, y, z;  // indices of values; y is x when there is one operand
  float value;
};

// The three handles of the interface are whatever a backend makes of them.
struct dif_context {
  dif_context_options options;
};
struct dif_prepared {
  dif_context* context;
  std::vector<dif_tensor_type> types;  // per value of the program
  std::vector<Tensor> values;
  std::vector<std::uint32_t> inputs, outputs;
  std::vector<Step> steps;
  std::uint64_t bytes;
};
struct dif_value {
  dif_tensor_type type;
  Tensor elements;
};

namespace {

/// One sentence for the user, in the caller's buffer.
dif_code fail(dif_error* error, dif_code code, const char* format, ...) {
  std::va_list arguments;
  va_start(arguments, format);
  if (error != nullptr) std::vsnprintf(error->text, error->text_size, format, arguments);
  va_end(arguments);
  return code;
}

/// Nothing may throw across the interface.
template <class Body>
dif_code guarded(dif_error* error, Body body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return fail(error, DIF_ERROR_MEMORY, "the system has no memory left");
  }
}

/// Structures may be larger than we know them: in an array they stand struct_size bytes apart.
template <class T>
T& at(T* array, std::uint32_t i) {
  return *(T*)((char*)array + std::size_t{i} * array->struct_size);
}

bool same(const dif_tensor_type& a, const dif_tensor_type& b) {
  return a.dtype == b.dtype && a.rank == b.rank &&
         std::memcmp(a.dims, b.dims, a.rank * sizeof(a.dims[0])) == 0;
}

std::size_t count(const dif_tensor_type& type) {
  std::size_t product = 1;
  for (std::uint32_t axis = 0; axis < type.rank; ++axis) product *= static_cast<std::size_t>(type.dims[axis]);
  return product;
}

/// The step for one operation, or a sentence that says why it cannot be run here.
dif_code make_step(const dif_prepared& prepared, const ir::Operation& op, std::uint32_t index, Step& step,
                   dif_error* error) {
  const char* name = op.name()->c_str();
  const Function* function = std::begin(kFunctions);
  while (function != std::end(kFunctions) && std::strcmp(function->name, name) != 0) ++function;
  if (function == std::end(kFunctions))
    return fail(error, DIF_ERROR_UNAVAILABLE,
                "operation %u is %s; this backend has add, mul, add_scalar, mul_scalar and silu", index,
                name);
  const std::uint32_t n = op.operands()->size();
  step = {function, op.operands()->Get(0), op.operands()->Get(n - 1), op.results()->Get(0), 0};
  const dif_tensor_type& type = prepared.types[step.z];
  if (type.dtype != 0)
    return fail(error, DIF_ERROR_UNAVAILABLE, "operation %u, %s: only f32 is computed", index, name);
  if (!same(prepared.types[step.x], type) || !same(prepared.types[step.y], type))
    return fail(error, DIF_ERROR_UNAVAILABLE, "operation %u, %s: shapes differ, nothing is broadcast here",
                index, name);
  if (const auto* attributes = op.attributes(); attributes != nullptr && attributes->size() != 0)
    step.value = attributes->Get(0)->value_as_Number()->value();
  return DIF_OK;
}

/// The host has verified the program: indices exist, types fit the operations.
dif_code read_program(const dif_prepare_options& options, dif_prepared& prepared, dif_error* error) {
  const ir::Program& program = *ir::GetProgram(options.program);
  const std::uint64_t cap = prepared.context->options.memory_cap_bytes;
  for (const ir::Value* value : *program.values()) {
    dif_tensor_type type = {value->element_type()->number(), value->dims()->size(), {}};
    for (std::uint32_t axis = 0; axis < type.rank; ++axis) type.dims[axis] = value->dims()->Get(axis);
    if (type.dtype != 0 && type.dtype != 8)
      return fail(error, DIF_ERROR_UNAVAILABLE, "value %zu is neither f32 nor i32", prepared.values.size());
    prepared.bytes += count(type) * sizeof(float);
    if (cap != 0 && prepared.bytes > cap)
      return fail(error, DIF_ERROR_MEMORY, "the values need more than the cap of %llu bytes",
                  (unsigned long long)cap);
    prepared.types.push_back(type);
    prepared.values.emplace_back(count(type));
  }
  for (std::uint32_t i = 0; i < program.operations()->size(); ++i) {
    Step step;
    if (dif_code code = make_step(prepared, *program.operations()->Get(i), i, step, error)) return code;
    prepared.steps.push_back(step);
  }
  prepared.inputs.assign(program.inputs()->begin(), program.inputs()->end());
  for (const ir::Output* output : *program.outputs()) prepared.outputs.push_back(output->value());
  for (std::uint32_t i = 0; i < options.n_constants; ++i) {
    const dif_constant& constant = at(options.constants, i);
    if (constant.bytes != 0)
      std::memcpy(prepared.values[program.constants()->Get(i)].data(), constant.data, constant.bytes);
    if (options.release != nullptr) options.release(options.user, i);  // copied: the host may let go of it
  }
  return DIF_OK;
}

/// Brings the caller's tensors in, or ours out.
dif_code transfer(dif_prepared& prepared, const std::vector<std::uint32_t>& ids, const dif_tensor* tensors,
                  std::uint32_t n, bool inwards, dif_error* error) {
  const char* what = inwards ? "input" : "output";
  if (n != ids.size())
    return fail(error, DIF_ERROR_INVALID, "%u %ss are bound, not %zu", n, what, ids.size());
  for (std::uint32_t i = 0; i < n; ++i) {
    const dif_tensor& tensor = at(tensors, i);
    if (!same(tensor.type, prepared.types[ids[i]]) ||
        (tensor.value != nullptr && !same(tensor.value->type, tensor.type)))
      return fail(error, DIF_ERROR_INVALID, "%s %u has another type than the program", what, i);
    Tensor& own = prepared.values[ids[i]];
    void* theirs = tensor.value != nullptr ? tensor.value->elements.data() : tensor.data;
    if (theirs == nullptr && !own.empty()) return fail(error, DIF_ERROR_INVALID, "%s %u is nowhere", what, i);
    if (!own.empty())
      std::memcpy(inwards ? own.data() : theirs, inwards ? theirs : own.data(), own.size() * sizeof(float));
  }
  return DIF_OK;
}

dif_code execute(dif_prepared& prepared, std::uint32_t flags, dif_error* error) {
  const dif_context_options& host = prepared.context->options;
  if ((flags & ~DIF_RUN_CHECK_OPERATIONS) != 0)
    return fail(error, DIF_ERROR_INVALID, "run flags %#x are unknown", flags);
  for (std::uint32_t i = 0; i < prepared.steps.size(); ++i) {
    if (host.cancelled != nullptr && host.cancelled(host.user) != 0)
      return fail(error, DIF_ERROR_CANCELLED, "stopped on request");
    const Step& step = prepared.steps[i];
    const Tensor &x = prepared.values[step.x], &y = prepared.values[step.y];
    Tensor& z = prepared.values[step.z];
    const auto start = std::chrono::steady_clock::now();
    bool finite = true;
    for (std::size_t k = 0; k < z.size(); ++k) {
      z[k] = step.function->compute(x[k], y[k], step.value);
      finite &= std::isfinite(z[k]);
    }
    const std::chrono::nanoseconds spent = std::chrono::steady_clock::now() - start;
    const dif_trace_event event = {sizeof(event), i, step.function->name, "pointwise",
                                   (std::uint64_t)spent.count()};
    if (host.trace != nullptr) host.trace(host.user, &event);
    if (finite || (flags & DIF_RUN_CHECK_OPERATIONS) == 0) continue;
    if (error != nullptr) error->operation = i;
    return fail(error, DIF_ERROR_NON_FINITE, "operation %u (%s) gives NaN or infinity", i,
                step.function->name);
  }
  return DIF_OK;
}

// --- the functions of the table
// -----------------------------------------------------------------------------

dif_code probe(const char** json, dif_error*) {
  *json = R"({"backend":"pointwise","devices":[{"name":"host, one thread"}]})";
  return DIF_OK;
}

dif_code context_create(const dif_context_options* options, dif_context** context, dif_error* error) {
  if (options->device != 0) return fail(error, DIF_ERROR_UNAVAILABLE, "there is one device, 0");
  // A flag that allows something may be ignored; one that is not known may ask for something.
  if ((options->flags & ~DIF_CONTEXT_ALLOW_HOST_FALLBACK) != 0)
    return fail(error, DIF_ERROR_INVALID, "context flags %#x are unknown", options->flags);
  return guarded(error, [&] { return *context = new dif_context{*options}, DIF_OK; });
}

dif_code prepare(dif_context* context, const dif_prepare_options* options, dif_prepared** prepared,
                 dif_error* error) {
  if (options->struct_size >= sizeof(*options) && options->flags != 0)
    return fail(error, DIF_ERROR_UNAVAILABLE, "this backend decides nothing without preparing");
  return guarded(error, [&] {
    dif_prepared result = {context, {}, {}, {}, {}, {}, 0};
    if (dif_code code = read_program(*options, result, error)) return code;
    *prepared = new dif_prepared(std::move(result));
    return dif_code{DIF_OK};
  });
}

dif_code report(const dif_prepared* prepared, dif_report* report, dif_error*) {
  const std::uint32_t size = report->struct_size;
  std::memset(report, 0, std::min<std::size_t>(size, sizeof(*report)));
  report->struct_size = size;
  report->n_operations = (std::uint32_t)prepared->steps.size();
  report->arena_bytes = prepared->bytes;
  report->details = "{}";
  return DIF_OK;
}

dif_code run(dif_prepared* prepared, const dif_run_options* o, dif_error* error) {
  dif_code code = transfer(*prepared, prepared->inputs, o->inputs, o->n_inputs, true, error);
  if (code == DIF_OK) code = execute(*prepared, o->flags, error);
  if (code == DIF_OK) code = transfer(*prepared, prepared->outputs, o->outputs, o->n_outputs, false, error);
  return code;
}

dif_code run_loop(dif_prepared* prepared, const dif_loop_options* o, dif_error* error) {
  if (dif_code code = transfer(*prepared, prepared->inputs, o->run.inputs, o->run.n_inputs, true, error))
    return code;
  for (std::uint32_t i = 0; i < o->n_steps; ++i) {
    const std::uint32_t number = o->first_step + i;
    std::memcpy(prepared->values[prepared->inputs[o->step_input]].data(), &number, sizeof(number));
    if (dif_code code = execute(*prepared, o->run.flags, error)) return code;
    dif_step_event event = {sizeof(event), number, 1, 0, nullptr, 0};
    for (std::uint32_t c = 0; c < o->n_carries; ++c) {
      const Tensor& from = prepared->values[prepared->outputs[o->carries[c].output]];
      prepared->values[prepared->inputs[o->carries[c].input]] = from;
      for (float element : from) event.all_finite &= std::isfinite(element) ? 1u : 0u;
      if (c == 0 && o->wants_state != 0)
        event.carried = from.data(), event.carried_bytes = from.size() * sizeof(float);
    }
    if (o->on_step != nullptr && o->on_step(o->user, &event) != 0)
      return fail(error, event.all_finite != 0 ? DIF_ERROR_CANCELLED : DIF_ERROR_NON_FINITE,
                  "stopped after step %u", number);
  }
  return transfer(*prepared, prepared->outputs, o->run.outputs, o->run.n_outputs, false, error);
}

dif_code value_create(dif_context*, const dif_tensor_type* type, dif_value** value, dif_error* error) {
  return guarded(error, [&] { return *value = new dif_value{*type, Tensor(count(*type))}, DIF_OK; });
}

dif_code value_copy(const dif_value* value, void* to, const void* from, std::uint64_t bytes,
                    dif_error* error) {
  if (bytes != value->elements.size() * sizeof(float))
    return fail(error, DIF_ERROR_INVALID, "the value has another size");
  std::memcpy(to, from, bytes);
  return DIF_OK;
}

const dif_backend_api kApi = {
    sizeof(kApi),
    DIF_ABI_MAJOR,
    DIF_ABI_MINOR,
    "pointwise",
    "1.0",
    probe,
    context_create,
    [](dif_context* context) { delete context; },
    prepare,
    [](dif_prepared* prepared) { delete prepared; },
    report,
    run,
    run_loop,
    value_create,
    [](dif_value* value) { delete value; },
    [](dif_value* value, const void* data, std::uint64_t bytes, dif_error* error) {
      return value_copy(value, value->elements.data(), data, bytes, error);
    },
    [](const dif_value* value, void* data, std::uint64_t bytes, dif_error* error) {
      return value_copy(value, data, value->elements.data(), bytes, error);
    },
    /*prefers=*/0,
    /*reserved=*/0,
};

}  // namespace

const dif_backend_api* dif_backend_entry(std::uint16_t host_abi_major, std::uint16_t) {
  return host_abi_major == DIF_ABI_MAJOR ? &kApi : nullptr;
}
