#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

#include "runtime/executor.h"
#include "runtime/finite.h"

namespace dif::runtime {

using plan::Storage;

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
