#include "runtime/executor.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "runtime/finite.h"

namespace dif::runtime {

using plan::Storage;

Status SharedArena::reserve(std::uint64_t arena_bytes, std::uint64_t workspace_bytes) {
  if (arena_bytes > arena_.bytes()) {
    arena_ = DeviceBuffer();
    DIF_ASSIGN(arena_, DeviceBuffer::create(device_, arena_bytes));
  }
  if (workspace_bytes > workspace_.bytes()) {
    workspace_ = DeviceBuffer();
    DIF_ASSIGN(workspace_, DeviceBuffer::create(device_, workspace_bytes));
  }
  return ok();
}

Executor::Executor(ir::Program program, Device& device, SharedArena& arena)
    : program_(std::move(program)), plan_(plan::make_plan(program_)), device_(device), arena_(arena) {
  for (ir::OpId id = 0; id < program_.ops.size(); ++id) views_.push_back(program_.view(id));
  fixed_places_.resize(program_.values.size());
  owned_.resize(program_.values.size());
}

Result<std::unique_ptr<Executor>> Executor::prepare(ir::Program program, std::vector<HostConstant> constants,
                                                    Device& device, SharedArena& arena,
                                                    const ExecutorOptions& options) {
  auto executor = std::unique_ptr<Executor>(new Executor(std::move(program), device, arena));
  executor->executes_ = options.executes;
  if (options.executes) {
    DIF_TRY(device.begin_run());
    DIF_TRY(executor->bind_constants(std::move(constants)));
    DIF_TRY(executor->fold(options));
    std::string missing;
    int n_missing = 0;
    for (ir::OpId op = 0; op < executor->program_.ops.size(); ++op) {
      if (executor->plan_.folded[op] || executor->program_.ops[op].def->is_view) continue;
      auto step = executor->make_step(op, options);
      if (step) {
        executor->steps_.push_back(std::move(*step));
      } else if (step.error().code != ErrorCode::kUnavailable) {
        return tl::unexpected<Error>(std::move(step.error()));
      } else if (++n_missing <= 10) {
        missing += (missing.empty() ? "" : "; ") + step.error().message;
      }
    }
    if (n_missing != 0)
      return fail(ErrorCode::kUnavailable, "this backend cannot run {} of {} operations: {}", n_missing,
                  executor->program_.ops.size(), missing);
    executor->release_unread(options);
  }
  executor->make_report(options);
  DIF_TRY(arena.reserve(executor->report_.arena_bytes, executor->report_.workspace_bytes));
  return executor;
}

Status Executor::bind_constants(std::vector<HostConstant> constants) {
  for (std::size_t i = 0; i < constants.size(); ++i) {
    const ir::ValueId id = program_.constants[i];
    const HostConstant& constant = constants[i];
    const std::size_t element = dtype_size(program_.type(id).dtype);
    const bool aligned = reinterpret_cast<std::uintptr_t>(constant.data) % element == 0;
    if (device_.addresses_host_memory() && aligned) {
      fixed_places_[id] = {const_cast<void*>(constant.data), 0};
      continue;
    }
    DIF_ASSIGN(owned_[id], DeviceBuffer::create(device_, constant.bytes));
    DIF_TRY(device_.upload(owned_[id].view(), constant.data, constant.bytes));
    fixed_places_[id] = owned_[id].view();
  }
  return ok();
}

/// Runs what depends on constants alone, and drops intermediate results as soon as nothing needs them any
/// more.
Status Executor::fold(const ExecutorOptions& options) {
  std::vector<std::uint32_t> readers(program_.values.size());
  for (ir::OpId op = 0; op < program_.ops.size(); ++op)
    for (const ir::ValueId operand : program_.ops[op].operands) ++readers[plan_.values[operand].root];
  for (const ir::Output& output : program_.outputs) ++readers[plan_.values[output.value].root];

  for (ir::OpId op = 0; op < program_.ops.size(); ++op) {
    if (!plan_.folded[op]) continue;
    const ir::Op& node = program_.ops[op];
    if (!node.def->is_view) {
      for (const ir::ValueId result : node.results) {
        DIF_ASSIGN(owned_[result], DeviceBuffer::create(device_, program_.type(result).bytes()));
        fixed_places_[result] = owned_[result].view();
      }
      DIF_ASSIGN(Step step, make_step(op, options));
      DIF_ASSIGN(DeviceBuffer workspace, DeviceBuffer::create(device_, step.kernel->workspace_bytes()));
      if (Status status = execute(step, fixed_places_, workspace.view()); !status)
        return with_context(std::move(status.error()), "while folding operation {}", op);
      DIF_TRY(device_.synchronize());
      step.kernel.reset();
      folded_steps_.push_back(std::move(step));
    }
    for (const ir::ValueId operand : node.operands) {
      const ir::ValueId root = plan_.values[operand].root;
      if (--readers[root] != 0 || plan_.values[root].storage != Storage::kFolded) continue;
      owned_[root] = DeviceBuffer();
      fixed_places_[root] = {};
    }
  }
  return ok();
}

Result<Executor::Step> Executor::make_step(ir::OpId op, const ExecutorOptions& options) {
  const ir::OpView& view = views_[op];
  std::vector<BufferView> constants;
  for (const ir::ValueId operand : program_.ops[op].operands)
    constants.push_back(place(operand, fixed_places_));
  const KernelRequest request = {&view, &device_, constants};
  Step step;
  step.op = op;
  for (const KernelEntry& entry : options.kernels) {
    if (entry.op != &view.def()) continue;
    auto kernel = entry.make(request);
    if (kernel) {
      step.kernel_name = entry.name;
      step.kernel = std::move(*kernel);
      return step;
    }
    if (kernel.error().code != ErrorCode::kDeclined)
      return with_context(std::move(kernel.error()), "kernel {} of operation {}", entry.name, op);
    step.declined.push_back(fmt::format("{}: {}", entry.name, kernel.error().message));
  }
  return fail(ErrorCode::kUnavailable, "operation {} ({}): {}", op, view.def().name,
              step.declined.empty() ? "no kernel" : fmt::format("{}", fmt::join(step.declined, ", ")));
}

/// Hands back constants, and frees folded values, that no kernel reads any more because it repacked them.
void Executor::release_unread(const ExecutorOptions& options) {
  std::vector<bool> read(program_.values.size());
  for (const Step& step : steps_) {
    const ir::Op& op = program_.ops[step.op];
    for (std::size_t i = 0; i < op.operands.size(); ++i) {
      const ir::ValueId root = plan_.values[op.operands[i]].root;
      if (fixed_places_[root] && step.kernel->reads_constant(i)) read[root] = true;
    }
  }
  for (const ir::Output& output : program_.outputs) read[plan_.values[output.value].root] = true;
  for (ir::ValueId id = 0; id < program_.values.size(); ++id) {
    if (read[id] || !fixed_places_[id]) continue;
    owned_[id] = DeviceBuffer();
    fixed_places_[id] = {};
  }
  if (!options.release) return;
  for (std::uint32_t i = 0; i < program_.constants.size(); ++i)
    if (!fixed_places_[program_.constants[i]] || owned_[program_.constants[i]].bytes() != 0)
      options.release(i);
}

void Executor::make_report(const ExecutorOptions& options) {
  report_.arena_bytes = plan_.arena_bytes;
  nlohmann::json operations = nlohmann::json::array();
  const auto describe = [&](const Step& step) -> nlohmann::json& {
    operations.push_back(
        {{"operation", step.op}, {"name", views_[step.op].def().name}, {"kernel", step.kernel_name}});
    if (!step.declined.empty()) operations.back()["declined"] = step.declined;
    return operations.back();
  };
  for (const Step& step : folded_steps_) describe(step)["folded"] = true;
  for (const Step& step : steps_) {
    report_.workspace_bytes = std::max(report_.workspace_bytes, step.kernel->workspace_bytes());
    report_.prepacked_bytes += step.kernel->prepacked_bytes();
    describe(step);
  }
  for (ir::ValueId id = 0; id < program_.values.size(); ++id)
    if (fixed_places_[id] && plan_.values[id].root == id) report_.resident_bytes += program_.type(id).bytes();
  report_.details =
      nlohmann::json{{"executes", options.executes}, {"operations", std::move(operations)}}.dump();
}

BufferView Executor::place(ir::ValueId value, const std::vector<BufferView>& places) const {
  return places[plan_.values[value].root];
}

Status Executor::execute(const Step& step, const std::vector<BufferView>& places, BufferView workspace) {
  const ir::Op& op = program_.ops[step.op];
  std::vector<TensorView> ins, outs;
  for (const ir::ValueId operand : op.operands)
    ins.push_back({place(operand, places), &program_.type(operand)});
  for (const ir::ValueId result : op.results) outs.push_back({place(result, places), &program_.type(result)});
  Status status = step.kernel->run({ins, outs, workspace});
  if (!status)
    return with_context(std::move(status.error()), "operation {}, {}, kernel {}", step.op, op.def->name,
                        step.kernel_name);
  return ok();
}

/// Downloads operands and results of one operation: for diagnosis, not for speed.
Status Executor::check_finite(const Step& step, const std::vector<BufferView>& places) {
  DIF_TRY(device_.synchronize());
  const auto survey = [&](ir::ValueId id) -> Result<FiniteSurvey> {
    std::vector<std::byte> bytes(program_.type(id).bytes());
    DIF_TRY(device_.download(bytes.data(), place(id, places), bytes.size()));
    return survey_finite(program_.type(id).dtype, bytes);
  };
  const ir::Op& op = program_.ops[step.op];
  for (const ir::ValueId result : op.results) {
    DIF_ASSIGN(const FiniteSurvey found, survey(result));
    if (found.all_finite) continue;
    double largest = 0;
    for (const ir::ValueId operand : op.operands) {
      DIF_ASSIGN(const FiniteSurvey input, survey(operand));
      largest = std::max(largest, input.largest_finite);
    }
    return fail(ErrorCode::kNonFinite,
                "operation {} ({}) is the first whose result holds {}; its largest finite input is {:.6g}",
                step.op, op.def->name, found.has_nan ? "NaN" : "infinity", largest);
  }
  return ok();
}

Status Executor::run_step(const Step& step, const std::vector<BufferView>& places, const RunHooks& hooks) {
  const auto start = std::chrono::steady_clock::now();
  DIF_TRY(execute(step, places, arena_.workspace()));
  if (hooks.trace) {
    DIF_TRY(device_.synchronize());
    const auto spent = std::chrono::steady_clock::now() - start;
    hooks.trace({step.op, views_[step.op].def().name.data(), step.kernel_name,
                 static_cast<std::uint64_t>(std::chrono::nanoseconds(spent).count())});
  }
  return hooks.check_operations ? check_finite(step, places) : ok();
}

namespace {

bool overlap(BufferView a, std::uint64_t a_bytes, BufferView b, std::uint64_t b_bytes) {
  const auto start = [](BufferView view) {
    return reinterpret_cast<std::uintptr_t>(view.base) + view.offset;
  };
  return start(a) < start(b) + b_bytes && start(b) < start(a) + a_bytes;
}

}  // namespace

Status Executor::write_outputs(std::span<const BufferView> outputs, const std::vector<BufferView>& places) {
  const auto bytes = [&](std::size_t i) { return program_.type(program_.outputs[i].value).bytes(); };
  if (!executes_) {
    for (std::size_t i = 0; i < outputs.size(); ++i)
      DIF_TRY(device_.upload(outputs[i], std::vector<std::byte>(bytes(i)).data(), bytes(i)));
    return ok();
  }
  // An output that is an input is set aside when another output will be written over that input.
  std::vector<BufferView> sources;
  std::vector<DeviceBuffer> aside;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const ir::ValueId value = program_.outputs[i].value;
    sources.push_back(place(value, places));
    if (plan_.values[value].storage != Storage::kInput) continue;
    bool endangered = false;
    for (std::size_t j = 0; j < outputs.size(); ++j)
      endangered |= j != i && overlap(outputs[j], bytes(j), sources[i], bytes(i));
    if (!endangered) continue;
    DIF_ASSIGN(DeviceBuffer copy, DeviceBuffer::create(device_, bytes(i)));
    DIF_TRY(device_.copy(copy.view(), sources[i], bytes(i)));
    sources[i] = copy.view();
    aside.push_back(std::move(copy));
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) DIF_TRY(device_.copy(outputs[i], sources[i], bytes(i)));
  return ok();
}

Status Executor::run(std::span<const BufferView> inputs, std::span<const BufferView> outputs,
                     const RunHooks& hooks) {
  forget_failure();
  if (hooks.cancelled && hooks.cancelled()) return fail(ErrorCode::kCancelled, "stopped on request");
  DIF_TRY(device_.begin_run());
  DIF_TRY(arena_.reserve(report_.arena_bytes, report_.workspace_bytes));
  std::vector<BufferView> places = fixed_places_;
  for (std::size_t i = 0; i < inputs.size(); ++i) places[program_.inputs[i]] = inputs[i];
  const BufferView arena = arena_.arena();
  for (ir::ValueId id = 0; id < places.size(); ++id)
    if (plan_.values[id].storage == Storage::kArena)
      places[id] = {arena.base, arena.offset + plan_.values[id].offset};

  for (const Step& step : steps_) {
    if (hooks.cancelled && hooks.cancelled()) return fail(ErrorCode::kCancelled, "stopped on request");
    if (Status status = run_step(step, places, hooks); !status) {
      failed_operation_ = step.op;
      return status;
    }
  }
  DIF_TRY(write_outputs(outputs, places));
  return device_.synchronize();
}

}  // namespace dif::runtime
