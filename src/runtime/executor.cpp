#include "runtime/executor.h"

#include <algorithm>
#include <chrono>

#include "base/clock.h"
#include "runtime/execution_options.h"

namespace dif::runtime {

using plan::Storage;

namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

Executor::Executor(ir::Program program, Device& device, SharedArena& arena,
                   std::span<const KernelEntry> kernels)
    : program_(std::move(program)),
      plan_(plan::make_plan(program_)),
      device_(device),
      arena_(arena),
      kernels_(kernels) {
  arena_.join();
  for (ir::OpId id = 0; id < program_.ops.size(); ++id) views_.push_back(program_.view(id));
  fixed_places_.resize(program_.values.size());
  owned_.resize(program_.values.size());
}

Result<std::unique_ptr<Executor>> Executor::prepare(ir::Program program, std::vector<HostConstant> constants,
                                                    Device& device, SharedArena& arena,
                                                    const ExecutorOptions& options) {
  const Clock::time_point start = Clock::now();
  auto executor = std::unique_ptr<Executor>(new Executor(std::move(program), device, arena, options.kernels));
  executor->executes_ = options.executes;
  executor->plan_only_ = options.plan_only;
  executor->execution_ = options.execution;
  DIF_TRY(executor->check_choices());
  if (options.executes) {
    DIF_TRY(device.begin_run());
    executor->plan_ =
        plan::make_plan(executor->program_, {}, plan::choose_in_place(executor->program_, options.pitches));
    executor->late_ = device.has_copy_lane();
    if (executor->late_) executor->take_sources(constants);
    if (options.plan_only || executor->late_) {
      DIF_TRY(executor->stand_in_for_constants());
    } else {
      DIF_TRY(executor->for_weights([&] { return executor->bind_constants(std::move(constants)); }));
    }
    executor->count_readers();
    std::vector<Step> group_steps;
    DIF_TRY(executor->make_groups(options, group_steps));
    DIF_TRY(executor->make_steps(std::move(group_steps)));
    for (const LinearChoice& choice : options.execution.linears)
      if (!choice.swiglu &&
          std::ranges::find(executor->steps_, choice.operation, &Step::op) == executor->steps_.end())
        return invalid_input("operation {} does not run: it depends on constants alone", choice.operation);
    if (executor->late_) {
      DIF_TRY(executor->for_weights([&] { return executor->place_weights(options); }));
    } else {
      for (const ir::Output& output : executor->program_.outputs) DIF_TRY(executor->fold({&output.value, 1}));
      executor->release_unread(options);
    }
  }
  if (!options.executes && !options.execution.linears.empty())
    return invalid_input(
        "operation {}: this backend computes nothing, there are no algorithms to choose from",
        options.execution.linears.front().operation);
  executor->make_schedule(executor->schedule_);
  if (!options.plan_only) DIF_TRY(executor->open_stream(executor->schedule_));
  executor->make_report(options, seconds_since(start));
  if (options.plan_only)
    DIF_TRY(executor->plan_memory(options.cap_bytes));
  else
    DIF_TRY(arena.reserve(executor->report_.arena_bytes, executor->report_.workspace_bytes));
  return executor;
}

/// Counts what is only planned, so that the next program is planned beside it.
Status Executor::plan_memory(std::uint64_t cap_bytes) {
  if (late_) {  // decide_residency has compared it with the budget
    arena_.plan(report_.arena_bytes, report_.workspace_bytes,
                static_cast<std::int64_t>(report_.resident_bytes));
    planned_bytes_ = report_.resident_bytes;
    return ok();
  }
  if (cap_bytes == 0) return ok();
  const bool copies = !device_.addresses_host_memory();
  std::uint64_t held = copies ? report_.prepacked_bytes : 0;
  for (ir::ValueId id = 0; id < program_.values.size(); ++id) {
    const bool is_copy = plan_.values[id].storage == Storage::kFolded || copies;
    if (fixed_places_[id] && plan_.values[id].root == id && is_copy) held += program_.type(id).bytes();
  }
  DIF_TRY(arena_.plan_under_cap(cap_bytes, report_.arena_bytes, report_.workspace_bytes, held));
  planned_bytes_ = held;
  return ok();
}

/// Runs `work`, whose time counts for the weights, but for that of the kernels that it makes.
template <class Work>
Status Executor::for_weights(Work work) {
  const Clock::time_point start = Clock::now();
  const double kernels = times_.kernels;
  Status status = work();
  times_.weights += seconds_since(start) - (times_.kernels - kernels);
  return status;
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

/// One buffer as large as the largest of them stands for every constant and every folded value; a small one
/// where kernels read none of them while they are made.
Status Executor::stand_in_for_constants() {
  const auto is_fixed = [&](ir::ValueId id) {
    const Storage storage = plan_.values[id].storage;
    return plan_.values[id].root == id && (storage == Storage::kConstant || storage == Storage::kFolded);
  };
  std::uint64_t largest = 1;
  for (ir::ValueId id = 0; id < plan_.values.size() && !late_; ++id)
    if (is_fixed(id)) largest = std::max(largest, program_.type(id).bytes());
  BufferView place;
  if (device_.addresses_host_memory()) {
    stand_in_ = {std::calloc(1, largest),
                 std::free};  // zero pages that take no memory until they are written
    if (stand_in_ == nullptr)
      return fail(ErrorCode::kOutOfMemory, "the system has no {} bytes of memory left", largest);
    place = {stand_in_.get(), 0};
  } else {
    DIF_ASSIGN(device_stand_in_, DeviceBuffer::create(device_, largest));
    place = device_stand_in_.view();
  }
  for (ir::ValueId id = 0; id < plan_.values.size(); ++id)
    if (is_fixed(id)) fixed_places_[id] = place;
  return ok();
}

/// How often each folded value will be read while kernels are made. Views read nothing: who reads them reads
/// their root.
void Executor::count_readers() {
  readers_.resize(program_.values.size());
  folds_made_.resize(program_.ops.size());
  for (const ir::Op& op : program_.ops)
    if (!op.def->is_view)
      for (const ir::ValueId operand : op.operands) ++readers_[plan_.values[operand].root];
  for (const ir::Output& output : program_.outputs) ++readers_[plan_.values[output.value].root];
}

/// Runs the operations that make `values`, where those depend on constants alone. Only now, when somebody
/// needs them: weights that are cast and then repacked would else all be there in both forms at once.
Status Executor::fold(std::span<const ir::ValueId> values) {
  if (late_) return ok();
  std::vector<ir::OpId> ops;
  const auto add_producers = [&](std::span<const ir::ValueId> wanted) {
    for (const ir::ValueId value : wanted) {
      const ir::ValueId root = plan_.values[value].root;
      const ir::OpId op = program_.values[root].producer;
      if (plan_.values[root].storage != Storage::kFolded || folds_made_[op]) continue;
      folds_made_[op] = true;
      ops.push_back(op);
    }
  };
  add_producers(values);
  for (std::size_t i = 0; i < ops.size(); ++i) add_producers(program_.ops[ops[i]].operands);
  std::ranges::sort(ops);
  for (const ir::OpId op : ops) {
    DIF_TRY(for_weights([&] { return fold_operation(op); }));
    for (const ir::ValueId operand : program_.ops[op].operands) drop_reader(operand);
  }
  return ok();
}

/// Frees a folded value when nobody will read it any more.
void Executor::drop_reader(ir::ValueId value) {
  const ir::ValueId root = plan_.values[value].root;
  if (--readers_[root] != 0 || plan_.values[root].storage != Storage::kFolded) return;
  owned_[root] = DeviceBuffer();
  fixed_places_[root] = {};
}

Status Executor::fold_operation(ir::OpId op) {
  if (!plan_only_)
    for (const ir::ValueId result : program_.ops[op].results) {
      DIF_ASSIGN(owned_[result], DeviceBuffer::create(device_, program_.type(result).bytes()));
      fixed_places_[result] = owned_[result].view();
    }
  DIF_ASSIGN(Step step, make_step(op));
  if (!plan_only_) {
    DIF_ASSIGN(DeviceBuffer workspace, DeviceBuffer::create(device_, step.workspace_bytes));
    if (Status status = execute(step, fixed_places_, workspace.view()); !status)
      return with_context(std::move(status.error()), "while folding operation {}", op);
    DIF_TRY(device_.synchronize());
    DIF_TRY(step.kernel->finish());
  }
  step.kernel.reset();
  folded_steps_.push_back(std::move(step));
  return ok();
}

/// What the caller decides about an operation otherwise is in no such group.
Status Executor::make_wholes(const ExecutorOptions& options, std::vector<plan::Group>& kept,
                             std::vector<Step>& group_steps) {
  std::vector<std::vector<ir::OpId>> found;
  if (options.fusion.wholes != nullptr) found = options.fusion.wholes(program_);
  std::vector<ir::OpId> joined;
  for (plan::Group& group : plan::whole_groups(program_, std::move(found))) {
    const auto chosen = std::ranges::find_if(execution_.linears, [&](const LinearChoice& choice) {
      return std::ranges::binary_search(group.ops, choice.operation);
    });
    KernelChoices choices;
    if (chosen != execution_.linears.end()) choices.linear = &*chosen;
    if (choices.linear != nullptr && !choices.linear->swiglu) continue;
    DIF_TRY(fold(group.inputs));
    device_.set_choices(&choices);
    auto step = make_group_step(group, options, true);
    device_.set_choices(nullptr);
    if (!step) return tl::unexpected<Error>(std::move(step.error()));
    if (*step->kernel_name == '\0') {
      if (choices.linear != nullptr)
        return invalid_input("operation {} and the SwiGLU behind it are not one kernel: {}",
                             choices.linear->operation, fmt::join(step->declined, "; "));
      declined_groups_.push_back({std::move(group), std::move(step->declined)});
      continue;
    }
    std::erase_if(plan_.in_place, [&](ir::OpId op) { return std::ranges::binary_search(group.ops, op); });
    joined.insert(joined.end(), group.ops.begin(), group.ops.end());
    kept.push_back(std::move(group));
    group_steps.push_back(std::move(*step));
  }
  for (const LinearChoice& choice : execution_.linears)
    if (choice.swiglu && std::ranges::find(joined, choice.operation) == joined.end())
      return invalid_input("operation {}: {}", choice.operation,
                           options.fusion.wholes == nullptr
                               ? "this backend has no kernel of a product with SwiGLU"
                               : "no SwiGLU follows that nobody else reads from: silu of one product without "
                                 "bias (or of columns of it) times another of the same operand");
  return ok();
}

/// Groups that every kernel declines fall apart; what is left is planned anew.
Status Executor::make_groups(const ExecutorOptions& options, std::vector<Step>& group_steps) {
  std::vector<plan::Group> kept;
  DIF_TRY(make_wholes(options, kept, group_steps));
  if (options.group_kernels.empty()) return ok();
  plan::Fusion fusion = plan::form_groups(program_, options.fusion, plan_.in_place, kept);
  refusals_ = std::move(fusion.refusals);
  for (plan::Group& group : fusion.groups) {
    DIF_TRY(fold(group.inputs));
    DIF_ASSIGN(Step step, make_group_step(group, options, false));
    if (*step.kernel_name == '\0') {
      declined_groups_.push_back({std::move(group), std::move(step.declined)});
      continue;
    }
    kept.push_back(std::move(group));
    group_steps.push_back(std::move(step));
  }
  if (!kept.empty()) plan_ = plan::make_plan(program_, std::move(kept), std::move(plan_.in_place));
  return ok();
}

Status Executor::make_steps(std::vector<Step> group_steps) {
  std::string missing;
  int n_missing = 0;
  for (const plan::Step& planned : plan_.steps) {
    if (planned.group != ir::kNoId) {
      steps_.push_back(std::move(group_steps[planned.group]));
      continue;
    }
    if (plan_.folded[planned.op] || program_.ops[planned.op].def->is_view || is_in_place(planned.op))
      continue;
    DIF_TRY(fold(program_.ops[planned.op].operands));
    auto step = make_step(planned.op);
    if (step) {
      for (std::size_t i = 0; i < step->in.size() && !late_; ++i)
        if (!step->reads[i]) drop_reader(step->in[i]);
      steps_.push_back(std::move(*step));
    } else if (step.error().code != ErrorCode::kDeclined) {
      return tl::unexpected<Error>(std::move(step.error()));
    } else if (++n_missing <= 10) {
      missing += (missing.empty() ? "" : "; ") + step.error().message;
    }
  }
  for (const Step& step : steps_) schedule_.order.push_back(&step);
  if (n_missing == 0) return ok();
  return fail(ErrorCode::kDeclined, "this backend cannot run {} of {} operations: {}", n_missing,
              program_.ops.size(), missing);
}

/// Asks the entries in order; fills in the kernel and what it takes, and the reasons of those that declined.
/// Without a name all of them declined.
template <class Entries, class Request, class Serves>
Status Executor::ask(Step& step, const Entries& entries, const Request& request, Serves serves) {
  for (const auto& entry : entries) {
    if (!serves(entry)) continue;
    const Clock::time_point start = Clock::now();
    auto kernel = entry.make(request);
    const double seconds = seconds_since(start);
    times_.kernels += seconds;
    times_.by_kernel[entry.name] += seconds;
    if (kernel) {
      step.kernel_name = entry.name;
      step.kernel = std::move(*kernel);
      step.workspace_bytes = step.kernel->workspace_bytes();
      step.prepacked_bytes = step.kernel->prepacked_bytes();
      step.on_host = step.kernel->runs_on_host();
      step.choice = step.kernel->choice();
      for (std::size_t i = 0; i < step.in.size(); ++i) step.reads.push_back(step.kernel->reads_constant(i));
      if (plan_only_) step.kernel.reset();
      return ok();
    }
    if (kernel.error().code != ErrorCode::kDeclined)
      return with_context(std::move(kernel.error()), "kernel {} of operation {}", entry.name, step.op);
    step.declined.push_back(fmt::format("{}: {}", entry.name, kernel.error().message));
  }
  return ok();
}

Status Executor::check_choices() const {
  for (const LinearChoice& choice : execution_.linears) {
    if (choice.operation >= program_.ops.size())
      return invalid_input("program {} has no operation {}; the last one is {}", program_.name,
                           choice.operation, program_.ops.size() - 1);
    const std::string_view name = views_[choice.operation].def().name;
    if (name != "linear")
      return invalid_input("operation {} is {}, not linear: it has no algorithms to choose from",
                           choice.operation, name);
  }
  for (const std::uint32_t constant : execution_.resident_constants)
    if (constant >= program_.constants.size())
      return invalid_input("program {} has {} constants, none with the number {}", program_.name,
                           program_.constants.size(), constant);
  return ok();
}

Result<Executor::Step> Executor::make_step(ir::OpId op) {
  const ir::OpView& view = views_[op];
  Step step;
  step.op = op;
  step.flop = ir::flops(view);
  step.description = view.def().name;
  step.in = program_.ops[op].operands;
  step.out = program_.ops[op].results;
  std::vector<BufferView> constants;
  for (const ir::ValueId operand : step.in) constants.push_back(place(operand, fixed_places_));
  const std::vector<plan::Pitch> in = pitches(step.in), out = pitches(step.out);
  const auto linear = std::ranges::find_if(execution_.linears, [&](const LinearChoice& choice) {
    return choice.operation == op && !choice.swiglu;
  });
  KernelChoices choices = {linear == execution_.linears.end() ? nullptr : &*linear,
                           execution_.more_algorithms, execution_.attention};
  const KernelRequest request = {&view, &device_, constants, plan_only_, in, out};
  device_.set_choices(&choices);
  const Status asked =
      ask(step, kernels_, request, [&](const KernelEntry& entry) { return entry.op == &view.def(); });
  device_.set_choices(nullptr);
  DIF_TRY(asked);
  if (choices.linear != nullptr && !choices.heeded && *step.kernel_name != '\0')
    return invalid_input("operation {}: kernel {} has no algorithms to choose from{}{}", op, step.kernel_name,
                         step.declined.empty() ? "" : "; ", fmt::join(step.declined, "; "));
  if (*step.kernel_name != '\0') return step;
  return fail(ErrorCode::kDeclined, "operation {} ({}): {}", op, view.def().name,
              step.declined.empty() ? "no kernel" : fmt::format("{}", fmt::join(step.declined, ", ")));
}

/// The step's kernel has no name when every kernel declined.
Result<Executor::Step> Executor::make_group_step(const plan::Group& group, const ExecutorOptions& options,
                                                 bool is_whole) {
  Step step;
  step.op = group.ops.front();
  step.in = group.inputs;
  step.out = group.outputs;
  const auto position = [](const auto& list, std::uint32_t id) {
    return static_cast<std::uint32_t>(std::ranges::find(list, id) - list.begin());
  };
  std::vector<GroupOp> ops;
  for (const ir::OpId id : group.ops) {
    const ir::Op& op = program_.ops[id];
    if (!step.description.empty()) step.description += '+';
    step.description += op.def->name;
    step.flop += ir::flops(views_[id]);
    GroupOp member = {&views_[id], {}, kNoOutput};
    for (const ir::ValueId operand : op.operands) {
      const ir::ValueId root = plan_.values[operand].root;
      const std::uint32_t producer = position(group.ops, program_.values[root].producer);
      const bool inside = producer < group.ops.size();
      member.operands.push_back({inside, inside ? producer : position(group.inputs, root)});
    }
    const std::uint32_t output = position(group.outputs, op.results.front());
    if (output < group.outputs.size()) member.output = output;
    ops.push_back(std::move(member));
  }
  std::vector<BufferView> constants;
  for (const ir::ValueId input : step.in) constants.push_back(place(input, fixed_places_));
  const std::vector<plan::Pitch> in = pitches(step.in), out = pitches(step.out);
  const GroupRequest request = {ops,      group.rows, constants, group.outputs.size(),
                                &device_, plan_only_, in,        out};
  DIF_TRY(ask(step, options.group_kernels, request,
              [&](const GroupKernelEntry& entry) { return entry.takes_wholes == is_whole; }));
  return step;
}

/// Hands back constants, and frees folded values, that no kernel reads any more because it repacked them.
void Executor::release_unread(const ExecutorOptions& options) {
  std::vector<bool> read(program_.values.size());
  for (const Step& step : steps_)
    for (std::size_t i = 0; i < step.in.size(); ++i) {
      const ir::ValueId root = plan_.values[step.in[i]].root;
      if (fixed_places_[root] && step.reads[i]) read[root] = true;
    }
  for (const plan::Group& group : plan_.groups)  // their operations may still have to run one by one
    for (const ir::ValueId input : group.inputs) read[input] = true;
  for (const ir::Output& output : program_.outputs) read[plan_.values[output.value].root] = true;
  for (ir::ValueId id = 0; id < program_.values.size(); ++id) {
    if (read[id] || !fixed_places_[id]) continue;
    owned_[id] = DeviceBuffer();
    fixed_places_[id] = {};
  }
  if (!options.release || plan_only_) return;
  for (std::uint32_t i = 0; i < program_.constants.size(); ++i)
    if (!fixed_places_[program_.constants[i]] || owned_[program_.constants[i]].bytes() != 0)
      options.release(i);
}

/// Empty where all of them are dense.
std::vector<plan::Pitch> Executor::pitches(const std::vector<ir::ValueId>& values) const {
  std::vector<plan::Pitch> result;
  for (const ir::ValueId value : values) result.push_back(plan_.values[value].pitch);
  const bool dense = std::ranges::all_of(result, [](const plan::Pitch& pitch) { return pitch.dense(); });
  return dense ? std::vector<plan::Pitch>() : result;
}

bool Executor::is_in_place(ir::OpId op) const {
  return std::ranges::binary_search(plan_.in_place, op);
}

}  // namespace dif::runtime
