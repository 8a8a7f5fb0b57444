#include "runtime/executor.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "runtime/execution_options.h"
#include "runtime/finite.h"

namespace dif::runtime {

using plan::Storage;

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

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

Result<BufferView> SharedArena::run_memory(std::uint64_t bytes) {
  if (bytes > run_memory_.bytes()) {
    run_memory_ = DeviceBuffer();
    DIF_ASSIGN(run_memory_, DeviceBuffer::create(device_, bytes));
  }
  return run_memory_.view();
}

Result<std::byte*> SharedArena::pinned_run_memory(std::uint64_t bytes) {
  if (bytes > pinned_run_memory_.bytes()) {
    pinned_run_memory_ = PinnedBuffer();
    DIF_ASSIGN(pinned_run_memory_, PinnedBuffer::create(device_, bytes));
  }
  return pinned_run_memory_.data();
}

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
      if (std::ranges::find(executor->steps_, choice.operation, &Step::op) == executor->steps_.end())
        return invalid_input("operation {} does not run: it depends on constants alone", choice.operation);
    if (executor->late_) {
      DIF_TRY(executor->for_weights([&] { return executor->place_weights(options); }));
    } else {
      for (const ir::Output& output : executor->program_.outputs) DIF_TRY(executor->fold({&output.value, 1}));
      executor->release_unread(options);
    }
  }
  executor->make_schedule(executor->schedule_);
  if (!options.plan_only) DIF_TRY(executor->open_stream(executor->schedule_));
  executor->make_report(options, seconds_since(start));
  if (!options.plan_only)
    DIF_TRY(arena.reserve(executor->report_.arena_bytes, executor->report_.workspace_bytes));
  return executor;
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

/// Groups that every kernel declines fall apart; what is left is planned anew.
Status Executor::make_groups(const ExecutorOptions& options, std::vector<Step>& group_steps) {
  if (options.group_kernels.empty()) return ok();
  plan::Fusion fusion = plan::form_groups(program_, options.fusion, plan_.in_place);
  refusals_ = std::move(fusion.refusals);
  std::vector<plan::Group> kept;
  for (plan::Group& group : fusion.groups) {
    DIF_TRY(fold(group.inputs));
    DIF_ASSIGN(Step step, make_group_step(group, options));
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
  const auto linear = std::ranges::find(execution_.linears, op, &LinearChoice::operation);
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
Result<Executor::Step> Executor::make_group_step(const plan::Group& group, const ExecutorOptions& options) {
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
  DIF_TRY(ask(step, options.group_kernels, request, [](const GroupKernelEntry&) { return true; }));
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

void Executor::make_report(const ExecutorOptions& options, double seconds) {
  report_.arena_bytes = plan_.arena_bytes;
  nlohmann::json operations = nlohmann::json::array(), groups = nlohmann::json::array(),
                 ends = nlohmann::json::array();
  const auto describe = [&](const Step& step, ir::OpId op) -> nlohmann::json& {
    operations.push_back({{"operation", op}, {"name", views_[op].def().name}, {"kernel", step.kernel_name}});
    return operations.back();
  };
  const auto with_bytes = [](nlohmann::json& entry, const Step& step) {
    if (step.workspace_bytes != 0) entry["workspace_bytes"] = step.workspace_bytes;
    if (step.prepacked_bytes != 0) entry["prepacked_bytes"] = step.prepacked_bytes;
  };
  const auto with_reasons = [](nlohmann::json& entry, const std::vector<std::string>& declined) {
    if (!declined.empty()) entry["declined"] = declined;
  };
  std::ranges::sort(folded_steps_, {}, &Step::op);
  for (const Step& step : folded_steps_) {
    if (step.on_host) ++report_.host_operations;
    describe(step, step.op)["folded"] = true;
    with_reasons(operations.back(), step.declined);
  }
  for (const Step& step : steps_) {
    report_.workspace_bytes = std::max(report_.workspace_bytes, step.workspace_bytes);
    report_.prepacked_bytes += step.prepacked_bytes;
    if (step.on_host) ++report_.host_operations;
    const auto group = std::ranges::find(plan_.groups, step.op,
                                         [](const plan::Group& candidate) { return candidate.ops.front(); });
    if (group == plan_.groups.end()) {
      with_reasons(describe(step, step.op), step.declined);
      if (!step.choice.empty()) operations.back()["choice"] = step.choice;
      with_bytes(operations.back(), step);
      continue;
    }
    for (const ir::OpId op : group->ops) describe(step, op)["group"] = groups.size();
    groups.push_back({{"operations", group->ops},
                      {"kernel", step.kernel_name},
                      {"rows", group->rows},
                      {"reads", group->inputs},
                      {"writes", group->outputs}});
    with_reasons(groups.back(), step.declined);
    with_bytes(groups.back(), step);
  }
  for (const DeclinedGroup& declined : declined_groups_)
    groups.push_back({{"operations", declined.group.ops}, {"declined", declined.declined}});
  for (const plan::Refusal& refusal : refusals_)
    ends.push_back({{"operation", refusal.op}, {"producer", refusal.producer}, {"reason", refusal.reason}});
  nlohmann::json resident = nlohmann::json::array(), streamed = nlohmann::json::array();
  for (ir::ValueId id = 0; id < program_.values.size(); ++id) {
    const Storage storage = plan_.values[id].storage;
    if (plan_.values[id].root != id || (storage != Storage::kConstant && storage != Storage::kFolded))
      continue;
    const bool is_resident = late_ ? placed_[id] == Placed::kResident : static_cast<bool>(fixed_places_[id]);
    if (is_resident) report_.resident_bytes += program_.type(id).bytes();
    if (is_resident) resident.push_back(id);
    if (late_ && placed_[id] == Placed::kStreamed) streamed.push_back(id);
  }
  for (const plan::RingStage& stage : schedule_.ring.stages)
    for (const std::uint32_t weight : stage.weights)
      report_.streamed_bytes += schedule_.use.weights[weight].bytes;
  report_.ring_bytes = schedule_.ring.bytes;
  report_.pinned_host_bytes =
      arena_.pinned_bytes() + pinned_weights_.bytes() + (stream_ == nullptr ? 0 : stream_->pinned_bytes());
  // "planner": whose make_plan laid out the memory, so that a host with the same one knows every place.
  nlohmann::json details = {{"executes", options.executes},
                            {"planner", plan::kPlannerName},
                            {"resident", std::move(resident)},
                            {"operations", std::move(operations)}};
  if (!options.plan_only)
    details["prepare"] = {{"seconds", seconds},
                          {"planning_seconds", seconds - times_.kernels - times_.weights},
                          {"weight_seconds", times_.weights},
                          {"kernel_seconds", times_.by_kernel}};
  if (!plan_.in_place.empty()) details["in_place"] = plan_.in_place;
  if (!groups.empty()) details["groups"] = std::move(groups);
  if (!ends.empty()) details["group_ends"] = std::move(ends);
  if (!streamed.empty()) details["streamed"] = std::move(streamed);
  if (residency_) {
    const plan::ResidencyRequest& request = residency_->request;
    details["residency"] = {{"budget_bytes", request.budget_bytes},
                            {"fixed_runtime_bytes", request.fixed_runtime_bytes},
                            {"order", plan::order_name(request.order)},
                            {"prefetch_distance", request.prefetch_distance},
                            {"available_bytes", residency_->available_bytes},
                            {"ring_bytes", residency_->ring_bytes}};
  }
  report_.details = details.dump();
  if (loading_.bytes != 0) add_loading(report_.details);
  if (late_ && plan_only_)
    arena_.plan(report_.arena_bytes, report_.workspace_bytes,
                static_cast<std::int64_t>(report_.resident_bytes));
}

/// Makes what a run without groups needs; the kernels of operations outside groups serve both ways.
Status Executor::take_apart() {
  if (apart_) return ok();
  Apart apart;
  apart.plan = plan::make_plan(program_, {}, plan_.in_place);
  for (const plan::Group& group : plan_.groups)
    for (const ir::OpId op : group.ops) {
      DIF_ASSIGN(Step step, make_step(op));
      apart.steps.push_back(std::move(step));
    }
  std::vector<const Step*> by_op(program_.ops.size());
  for (const std::vector<Step>* list : {&std::as_const(steps_), &std::as_const(apart.steps)})
    for (const Step& step : *list) by_op[step.op] = &step;  // a group's step gives way to its operation's
  for (const Step* step : by_op) {
    if (step == nullptr) continue;
    apart.schedule.order.push_back(step);
    apart.workspace_bytes = std::max(apart.workspace_bytes, step->workspace_bytes);
  }
  apart_ = std::move(apart);
  make_schedule(apart_->schedule);
  return ok();
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

BufferView Executor::place(ir::ValueId value, const std::vector<BufferView>& places) const {
  return places[plan_.values[value].root];
}

Status Executor::execute(const Step& step, const std::vector<BufferView>& places, BufferView workspace) {
  std::vector<TensorView> ins, outs;
  for (const ir::ValueId value : step.in) ins.push_back({place(value, places), &program_.type(value)});
  for (const ir::ValueId value : step.out) outs.push_back({place(value, places), &program_.type(value)});
  Status status = step.kernel->run({ins, outs, workspace});
  if (!status)
    return with_context(std::move(status.error()), "operation {}, {}, kernel {}", step.op, step.description,
                        step.kernel_name);
  return ok();
}

/// Downloads operands and results of one operation: for diagnosis, not for speed.
Status Executor::check_finite(const Step& step, const std::vector<BufferView>& places) {
  DIF_TRY(device_.synchronize());
  const auto survey = [&](ir::ValueId id) -> Result<FiniteSurvey> {
    const ir::TensorType& type = program_.type(id);
    const plan::Pitch& pitch = plan_.values[id].pitch;
    const std::size_t run =
        pitch.dense() ? type.bytes() : static_cast<std::size_t>(pitch.run) * dtype_size(type.dtype);
    const std::size_t step = static_cast<std::size_t>(pitch.pitch) * dtype_size(type.dtype);
    const std::size_t runs = run == 0 ? 0 : type.bytes() / run;
    std::vector<std::byte> bytes(runs == 0 ? 0 : (runs - 1) * step + run);
    DIF_TRY(device_.download(bytes.data(), place(id, places), bytes.size()));
    for (std::size_t i = 1; i < runs; ++i) std::memmove(&bytes[i * run], &bytes[i * step], run);
    return survey_finite(type.dtype, std::span(bytes).first(runs * run));
  };
  for (const ir::ValueId result : step.out) {
    DIF_ASSIGN(const FiniteSurvey found, survey(result));
    if (found.all_finite) continue;
    double largest = 0;
    for (const ir::ValueId operand : step.in) {
      if (!place(operand, places)) continue;  // a constant that its kernel repacked and handed back
      DIF_ASSIGN(const FiniteSurvey input, survey(operand));
      largest = std::max(largest, input.largest_finite);
    }
    return fail(ErrorCode::kNonFinite,
                "operation {} ({}) is the first whose result holds {}; its largest finite input is {:.6g}",
                step.op, step.description, found.has_nan ? "NaN" : "infinity", largest);
  }
  return ok();
}

Status Executor::run_step(const Step& step, const std::vector<BufferView>& places, const RunHooks& hooks,
                          bool marks_time) {
  const auto start = std::chrono::steady_clock::now();
  DIF_TRY(execute(step, places, arena_.workspace()));
  if (marks_time) {
    DIF_TRY(device_.mark_time());
  } else if (hooks.trace) {
    DIF_TRY(device_.synchronize());
    const std::chrono::nanoseconds spent = std::chrono::steady_clock::now() - start;
    const std::uint64_t measured =
        device_.measured_nanoseconds().value_or(static_cast<std::uint64_t>(spent.count()));
    hooks.trace({step.op, step.description.c_str(), step.kernel_name, measured});
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
  Status status = start(inputs, outputs, hooks);
  if (status) status = device_.synchronize();
  return status ? complete() : status;
}

Status Executor::start(std::span<const BufferView> inputs, std::span<const BufferView> outputs,
                       const RunHooks& hooks) {
  forget_failure();
  if (plan_only_) return invalid_input("program {} was planned, not prepared", program_.name);
  if (hooks.cancelled && hooks.cancelled()) return fail(ErrorCode::kCancelled, "stopped on request");
  DIF_TRY(device_.begin_run());
  device_.measure_kernels(static_cast<bool>(hooks.trace));
  const bool one_by_one = hooks.check_operations && !plan_.groups.empty();
  if (one_by_one) DIF_TRY(take_apart());
  const plan::Plan& plan = one_by_one ? apart_->plan : plan_;
  DIF_TRY(arena_.reserve(plan.arena_bytes, one_by_one ? apart_->workspace_bytes : report_.workspace_bytes));
  DIF_TRY(load_pending(false));
  DIF_TRY(finish_loading());
  std::vector<BufferView> places = fixed_places_;
  for (std::size_t i = 0; i < inputs.size(); ++i) places[program_.inputs[i]] = inputs[i];
  const BufferView arena = arena_.arena();
  for (ir::ValueId id = 0; id < places.size(); ++id)
    if (plan.values[id].storage == Storage::kArena)
      places[id] = {arena.base, arena.offset + plan.values[id].offset};

  const Schedule& schedule = one_by_one ? apart_->schedule : schedule_;
  started_ = &schedule;
  DIF_TRY(open_stream(schedule));
  const bool records = records_ && executes_ && !hooks.trace && !hooks.check_operations;
  const bool recorded = records && may_replay(inputs, outputs);
  return run_segments(schedule, places, outputs, hooks, recorded);
}

Status Executor::run_segments(const Schedule& schedule, std::vector<BufferView>& places,
                              std::span<const BufferView> outputs, const RunHooks& hooks, bool recorded) {
  for (std::size_t i = 0; i < schedule.segments.size(); ++i) {
    const std::uint32_t stage = schedule.segments[i].stage;
    if (stage != kNoStage) {
      DIF_TRY(stream_->acquire(hooks.cancelled));
      place_stage(schedule, stage, places);
    }
    DIF_TRY(recorded ? submit_recorded(i, places, outputs, hooks)
                     : submit(schedule, i, places, outputs, hooks));
    if (stage != kNoStage) DIF_TRY(stream_->release());
  }
  return ok();
}

Status Executor::submit(const Schedule& schedule, std::size_t segment, const std::vector<BufferView>& places,
                        std::span<const BufferView> outputs, const RunHooks& hooks) {
  const std::span<const Step* const> steps =
      std::span(schedule.order)
          .subspan(schedule.segments[segment].first,
                   schedule.segments[segment].end - schedule.segments[segment].first);
  bool marks_time = false;
  if (hooks.trace) {
    DIF_ASSIGN(marks_time, device_.mark_time());
  }
  for (const Step* step : steps) {
    if (hooks.cancelled && hooks.cancelled()) return fail(ErrorCode::kCancelled, "stopped on request");
    if (Status status = run_step(*step, places, hooks, marks_time); !status) {
      failed_operation_ = step->op;
      return status;
    }
  }
  if (marks_time) DIF_TRY(tell_times(steps, hooks));
  return segment + 1 == schedule.segments.size() ? write_outputs(outputs, places) : ok();
}

/// Of a device that noted them down while it ran.
Status Executor::tell_times(std::span<const Step* const> steps, const RunHooks& hooks) {
  DIF_TRY(device_.synchronize());
  DIF_ASSIGN(const std::vector<std::uint64_t> times, device_.times_between_marks());
  for (std::size_t i = 0; i < std::min(steps.size(), times.size()); ++i)
    hooks.trace({steps[i]->op, steps[i]->description.c_str(), steps[i]->kernel_name, times[i]});
  return ok();
}

/// The first run with some memory is submitted kernel by kernel, and makes what kernels make when they first
/// run; the second is recorded.
bool Executor::may_replay(std::span<const BufferView> inputs, std::span<const BufferView> outputs) {
  std::vector<BufferView> memory(inputs.begin(), inputs.end());
  memory.insert(memory.end(), outputs.begin(), outputs.end());
  memory.push_back(arena_.arena());
  memory.push_back(arena_.workspace());
  if (memory == recorded_.memory) return true;
  recorded_ = {std::move(memory), {}};
  recorded_.segments.resize(schedule_.segments.size());
  return false;
}

Status Executor::submit_recorded(std::size_t segment, const std::vector<BufferView>& places,
                                 std::span<const BufferView> outputs, const RunHooks& hooks) {
  std::unique_ptr<Recording>& recording = recorded_.segments[segment];
  if (recording == nullptr) {
    if (records_) {
      DIF_ASSIGN(records_, device_.begin_recording());
    }
    if (!records_) return submit(schedule_, segment, places, outputs, hooks);
    const Status submitted = submit(schedule_, segment, places, outputs, hooks);
    auto recorded = device_.end_recording();
    if (!submitted || !recorded) {
      records_ = false;
      if (!submitted && submitted.error().code == ErrorCode::kCancelled) return submitted;
      return submit(schedule_, segment, places, outputs, hooks);
    }
    recording = std::move(*recorded);
  }
  return recording->replay();
}

Status Executor::complete() {
  for (const Step* step : started_->order) {
    if (Status status = step->kernel->finish(); !status) {
      failed_operation_ = step->op;
      return with_context(std::move(status.error()), "operation {}, {}, kernel {}", step->op,
                          step->description, step->kernel_name);
    }
  }
  return ok();
}

}  // namespace dif::runtime
