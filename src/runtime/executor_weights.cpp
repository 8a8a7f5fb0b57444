/// Weights of a program on a device with a copy lane: which stay there, how they get there, and what is
/// fetched again in every run.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>
#include <system_error>
#include <tuple>
#include <utility>

#include "base/checked_math.h"
#include "base/clock.h"
#include "plan/constant_bytes.h"
#include "runtime/executor.h"

namespace dif::runtime {

using plan::Storage;

namespace {

/// Of places in the ring: enough for the widest accesses of kernels.
constexpr std::uint64_t kRingAlignment = 256;
/// Inputs and outputs of runs, the step number, and what allocations are rounded up by.
constexpr std::uint64_t kRunReserveBytes = 48 << 20;

/// Of a value that stays while folded ones are computed from it.
constexpr std::uint64_t kMostSharedBytes = 8 << 20;

/// Bytes in MiB, rounded up.
std::uint64_t mib(std::uint64_t bytes) {
  return saturating_add<std::uint64_t>(bytes, (1 << 20) - 1) >> 20;
}

}  // namespace

Executor::~Executor() {
  if (load_.valid()) {
    // Until it is done nobody else has its uploader, or replaces it.
    if (load_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) loader_->stop();
    load_.wait();
  }
  if (planned_bytes_ != 0) arena_.plan(0, 0, -static_cast<std::int64_t>(planned_bytes_));
  arena_.leave(device_.cap_bytes() != 0 || weights_.budget_bytes != 0);
}

void Executor::take_sources(const std::vector<HostConstant>& constants) {
  sources_.resize(program_.values.size());
  placed_.resize(program_.values.size(), Placed::kNowhere);
  for (std::size_t i = 0; i < constants.size(); ++i)
    sources_[program_.constants[i]] = {static_cast<const std::byte*>(constants[i].data), constants[i].fd,
                                       constants[i].file_offset};
}

/// The weights that steps of an order read, and where in it those steps are.
plan::WeightUse Executor::weight_use(const std::vector<const Step*>& order,
                                     std::vector<std::size_t>& position) const {
  plan::WeightUse use;
  std::vector<std::uint32_t> index(program_.values.size(), ir::kNoId);
  for (std::size_t i = 0; i < order.size(); ++i) {
    std::vector<std::uint32_t> reads;
    for (const ir::ValueId value : order[i]->in) {
      const ir::ValueId root = plan_.values[value].root;
      if (plan_.values[root].storage != Storage::kConstant && plan_.values[root].storage != Storage::kFolded)
        continue;
      if (index[root] == ir::kNoId) {
        index[root] = static_cast<std::uint32_t>(use.weights.size());
        use.weights.push_back(
            {root, program_.type(root).bytes(), late_ && placed_[root] != Placed::kStreamed});
      }
      if (std::ranges::find(reads, index[root]) == reads.end()) reads.push_back(index[root]);
    }
    if (!reads.empty()) position.push_back(i);
    use.add_step(std::move(reads), order[i]->flop);
  }
  return use;
}

void Executor::make_schedule(Schedule& schedule) const {
  std::vector<std::size_t> position;
  if (late_) {
    schedule.use = weight_use(schedule.order, position);
    schedule.ring = plan::lay_out_ring(schedule.use, weights_.prefetch_distance, kRingAlignment);
  }
  std::size_t next = 0;
  for (std::uint32_t stage = 0; stage < schedule.ring.stages.size(); ++stage) {
    const std::size_t step = position[schedule.ring.stages[stage].step];
    if (step != next) schedule.segments.push_back({next, step, kNoStage});
    schedule.segments.push_back({step, step + 1, stage});
    next = step + 1;
  }
  if (next != schedule.order.size() || schedule.segments.empty())
    schedule.segments.push_back({next, schedule.order.size(), kNoStage});
}

/// Notes, for the report and for compute(), how the value and what it depends on come to be.
Status Executor::list_fold(ir::ValueId root) {
  if (plan_.values[root].storage != Storage::kFolded) return ok();
  const ir::OpId op = program_.values[root].producer;
  if (folds_made_[op]) return ok();
  folds_made_[op] = true;
  for (const ir::ValueId operand : program_.ops[op].operands) DIF_TRY(list_fold(plan_.values[operand].root));
  if (!plan::constant_bytes(program_, root)) {
    DIF_ASSIGN(Step step, make_step(op));
    folded_steps_.push_back(std::move(step));
    return ok();
  }
  Step step;
  step.op = op;
  step.description = views_[op].def().name;
  step.kernel_name = "read_in_place";
  folded_steps_.push_back(std::move(step));
  return ok();
}

/// Pre: kernels are made.
Status Executor::place_weights(const ExecutorOptions& options) {
  weights_ = options.weights;
  std::uint64_t workspace_bytes = 0;
  for (const Step& step : steps_) workspace_bytes = std::max(workspace_bytes, step.workspace_bytes);
  std::vector<std::size_t> unused;
  for (const plan::PlacedWeight& weight : weight_use(schedule_.order, unused).weights)
    placed_[weight.value] = Placed::kResident;
  DIF_TRY(decide_residency(options, workspace_bytes));
  for (const ir::Output& output : program_.outputs) {
    const plan::Placement& place = plan_.values[output.value];
    if (place.storage == Storage::kConstant || place.storage == Storage::kFolded)
      placed_[place.root] = Placed::kResident;
  }
  for (ir::ValueId id = 0; id < placed_.size(); ++id)
    if (placed_[id] != Placed::kNowhere) DIF_TRY(list_fold(id));
  std::ranges::fill(fixed_places_, BufferView());
  device_stand_in_ = DeviceBuffer();
  if (plan_only_) return ok();
  DIF_TRY(arena_.reserve(plan_.arena_bytes, workspace_bytes));
  DIF_TRY(load_weights(options));
  DIF_TRY(keep_on_host());
  release_read(options);
  return ok();
}

Status Executor::decide_residency(const ExecutorOptions& options, std::uint64_t workspace_bytes) {
  std::uint64_t run_bytes = kRunReserveBytes;
  for (const ir::ValueId input : program_.inputs) run_bytes += program_.type(input).bytes();
  for (const ir::Output& output : program_.outputs) run_bytes += program_.type(output.value).bytes();
  run_bytes = arena_.expect_run_bytes(run_bytes);
  const std::uint64_t cap = device_.cap_bytes(), asked = options.weights.budget_bytes;
  const std::uint64_t budget = cap == 0 || asked == 0 ? std::max(cap, asked) : std::min(cap, asked);
  if (budget == 0) return ok();
  std::uint64_t fixed = run_bytes + device_.reserve_bytes();
  const std::uint64_t shared = arena_.arena_bytes() + arena_.workspace_bytes() + arena_.run_memory_bytes();
  const std::uint64_t held = device_.held_bytes();
  fixed += held > shared ? held - shared : 0;
  fixed += arena_.planned_resident_bytes();
  fixed += std::max(workspace_bytes, arena_.planned_workspace_bytes());
  // Another program of the context may have made the arena larger than this one needs it.
  fixed += std::max(plan_.arena_bytes, arena_.planned_arena_bytes()) - plan_.arena_bytes;
  std::vector<std::size_t> unused;
  const plan::WeightUse use = weight_use(schedule_.order, unused);
  const std::uint32_t distance = weights_.serial ? 0 : weights_.prefetch_distance;
  weights_.prefetch_distance = distance;
  plan::ResidencyRequest request = {budget, fixed, weights_.order, distance};
  if (execution_.stream_weights)
    request.budget_bytes = std::min(budget, plan::least_budget(use, plan_.arena_bytes, request));
  DIF_ASSIGN(const std::vector<ir::ValueId> kept, constants_to_keep(use));
  residency_ = plan::place_weights(use, plan_.arena_bytes, request, kept);
  if (!residency_->fits)
    return fail(ErrorCode::kOutOfMemory,
                "program {} needs at least {} MiB of device memory, {} MiB are given: {} for intermediate "
                "values, {} for two or more weights at a time, {} for scratch memory, libraries and what the "
                "context holds; give more, or choose a smaller size",
                program_.name, mib(plan::least_budget(use, plan_.arena_bytes, request)), budget >> 20,
                mib(plan_.arena_bytes), mib(residency_->ring_bytes), mib(fixed));
  for (const plan::PlacedWeight& weight : residency_->weights)
    placed_[weight.value] = weight.resident ? Placed::kResident : Placed::kStreamed;
  for (const ir::ValueId constant : kept)
    if (placed_[constant] != Placed::kResident)
      return fail(
          ErrorCode::kOutOfMemory,
          "constant {} is to stay on the device, and its {} MiB do not fit beside the ring; give more "
          "memory, or keep less",
          program_.values[constant].name, mib(program_.type(constant).bytes()));
  return ok();
}

/// Of the caller's choice. Errors: InvalidInput (no step reads it).
Result<std::vector<ir::ValueId>> Executor::constants_to_keep(const plan::WeightUse& use) const {
  std::vector<ir::ValueId> kept;
  for (const std::uint32_t index : execution_.resident_constants) {
    const ir::ValueId constant = program_.constants[index];
    if (std::ranges::find(use.weights, constant, &plan::PlacedWeight::value) == use.weights.end())
      return invalid_input("constant {} is read by no operation of a run: it is folded, or not used",
                           program_.values[constant].name);
    kept.push_back(constant);
  }
  return kept;
}

std::vector<Transfer> Executor::transfers_of(ir::ValueId root, BufferView to) const {
  const std::uint64_t bytes = program_.type(root).bytes();
  if (sources_[root].data != nullptr) return {{to, sources_[root], bytes}};
  std::vector<Transfer> transfers;
  const auto runs = plan::constant_bytes(program_, root);
  for (const plan::ConstantBytes& run : runs.value_or(std::vector<plan::ConstantBytes>())) {
    transfers.push_back({to, sources_[run.constant].from(run.offset), run.bytes});
    to.offset += run.bytes;
  }
  return transfers;
}

/// Computes a folded value; what it depends on is there only meanwhile. Several may be slices of one product,
/// whose weights are large and which is small itself: where no budget counts every byte, it stays.
Status Executor::compute(ir::ValueId root, BufferView to) {
  const ir::OpId op = program_.values[root].producer;
  std::vector<BufferView> places = fixed_places_;
  std::vector<DeviceBuffer> buffers;
  const bool shares_folds = weights_.budget_bytes == 0 && device_.cap_bytes() == 0;
  const auto room = [&](ir::ValueId value) -> Status {
    DIF_ASSIGN(DeviceBuffer buffer, DeviceBuffer::create(device_, program_.type(value).bytes()));
    places[value] = buffer.view();
    buffers.push_back(std::move(buffer));
    return ok();
  };
  for (const ir::ValueId operand : program_.ops[op].operands) {
    const ir::ValueId source = plan_.values[operand].root;
    if (std::ranges::any_of(buffers,
                            [&](const DeviceBuffer& known) { return known.view() == places[source]; }))
      continue;
    if (const auto known = shared_folds_.find(source); known != shared_folds_.end()) {
      places[source] = known->second.view();
      continue;
    }
    DIF_TRY(room(source));
    if (!plan::constant_bytes(program_, source)) {
      DIF_TRY(compute(source, places[source]));
      if (shares_folds && buffers.back().bytes() <= kMostSharedBytes) {
        shared_folds_.emplace(source, std::move(buffers.back()));
        buffers.pop_back();
      }
      continue;
    }
    DIF_ASSIGN(Uploader* const uploader, arena_.uploader(weights_, program_.type(source).bytes()));
    DIF_TRY(uploader->run(transfers_of(source, places[source])));
  }
  for (const ir::ValueId result : program_.ops[op].results)
    if (result != root) DIF_TRY(room(result));
  places[root] = to;
  const auto step = std::ranges::find(folded_steps_, op, &Step::op);
  DIF_ASSIGN(DeviceBuffer workspace, DeviceBuffer::create(device_, step->workspace_bytes));
  if (Status status = execute(*step, places, workspace.view()); !status)
    return with_context(std::move(status.error()), "while folding operation {}", op);
  DIF_TRY(device_.synchronize());
  return step->kernel->finish();
}

/// Resident weights lie in one block, so that they take the bytes that were counted.
Status Executor::load_weights(const ExecutorOptions& options) {
  std::uint64_t total = 0;
  std::vector<std::uint64_t> offsets(placed_.size());
  for (ir::ValueId id = 0; id < placed_.size(); ++id) {
    if (placed_[id] != Placed::kResident) continue;
    offsets[id] = total;
    total += align_up(program_.type(id).bytes(), kRingAlignment);
  }
  if (total != 0) {
    auto block = DeviceBuffer::create(device_, total);
    if (!block && weights_.budget_bytes == 0 && device_.cap_bytes() == 0)
      return with_context(std::move(block.error()), "--max-vram SIZE streams weights that do not fit");
    if (!block) return tl::unexpected<Error>(std::move(block.error()));
    resident_ = std::move(*block);
  }
  for (ir::ValueId id = 0; id < placed_.size(); ++id) {
    if (placed_[id] == Placed::kNowhere) continue;
    const bool computed = !plan::constant_bytes(program_, id);
    if (placed_[id] == Placed::kResident) {
      const BufferView place = {resident_.view().base, resident_.view().offset + offsets[id]};
      if (computed) DIF_TRY(compute(id, place));
      if (!computed)
        for (const Transfer& transfer : transfers_of(id, place)) pending_.push_back(transfer);
      fixed_places_[id] = place;
    } else if (computed) {
      DIF_ASSIGN(const DeviceBuffer buffer, DeviceBuffer::create(device_, program_.type(id).bytes()));
      DIF_TRY(compute(id, buffer.view()));
      std::vector<std::byte>& copy = host_weights_.emplace_back(buffer.bytes());
      DIF_TRY(device_.download(copy.data(), buffer.view(), buffer.bytes()));
      sources_[id] = {copy.data(), -1, 0};
    }
  }
  shared_folds_.clear();
  for (Step& step : folded_steps_) step.kernel.reset();
  std::ranges::sort(pending_, {}, [](const Transfer& transfer) {
    return std::tuple(transfer.from.fd, transfer.from.file_offset, transfer.from.data);
  });
  if (weights_.lazy) return ok();
  const bool all_fit = weights_.budget_bytes == 0 && device_.cap_bytes() == 0;
  return load_pending(all_fit && !options.release);
}

Result<Loading> Executor::bring(std::vector<Transfer> transfers, std::uint64_t bytes) {
  const std::uint64_t direct_before = loader_->direct_bytes(), refused_before = loader_->refused_bytes();
  const auto start = std::chrono::steady_clock::now();
  DIF_TRY(loader_->bring(std::move(transfers)));
  return Loading{bytes, loader_->direct_bytes() - direct_before, loader_->refused_bytes() - refused_before,
                 seconds_since(start)};
}

/// `beside`: on a thread of its own, if the system has one more.
Status Executor::load_pending(bool beside) {
  if (pending_.empty()) return ok();
  std::uint64_t bytes = 0;
  for (const Transfer& transfer : pending_) bytes += transfer.bytes;
  DIF_ASSIGN(loader_, arena_.uploader(weights_, bytes));
  DIF_TRY(loader_->await_run_lane());
  const auto load = [this, bytes, transfers = std::exchange(pending_, {})]() -> Result<Loading> {
    DIF_TRY(device_.enter_copy_thread());
    return bring(transfers, bytes);
  };
  if (beside) try {
      load_ = std::async(std::launch::async, load).share();
      arena_.lend_uploader(load_);
      return ok();
    } catch (const std::system_error&) {  // no more threads
    }
  DIF_ASSIGN(loading_, load());
  return ok();
}

Status Executor::finish_loading() {
  if (!load_.valid()) return ok();
  const Result<Loading>& found = load_.get();
  if (!found) return tl::unexpected<Error>(found.error());
  loading_ = *found;
  load_ = {};
  add_loading(report_.details);
  return ok();
}

/// To a JSON object, which may be large.
void Executor::add_loading(std::string& details) const {
  nlohmann::json loading = {
      {"bytes", loading_.bytes}, {"direct_bytes", loading_.direct_bytes}, {"seconds", loading_.seconds}};
  if (loading_.refused_bytes != 0) loading["refused_bytes"] = loading_.refused_bytes;
  details.insert(details.size() - 1, fmt::format(",\"loading\":{}", loading.dump()));
}

/// Brings what is streamed into pinned memory, where that was asked for.
Status Executor::keep_on_host() {
  if (!weights_.host_pinned) return ok();
  std::uint64_t bytes = 0;
  std::vector<std::pair<ir::ValueId, std::uint64_t>> streamed;  // and their offsets
  for (ir::ValueId id = 0; id < placed_.size(); ++id) {
    if (placed_[id] != Placed::kStreamed) continue;
    streamed.emplace_back(id, bytes);
    bytes += align_up(program_.type(id).bytes(), kRingAlignment);
  }
  if (streamed.empty()) return ok();
  auto pinned = PinnedBuffer::create(device_, bytes);
  if (!pinned)
    return with_context(std::move(pinned.error()),
                        "--host-pinned keeps what is streamed in pinned memory; without it weights are read "
                        "from their files in every run");
  pinned_weights_ = std::move(*pinned);
  std::vector<HostRead> reads;
  for (const auto& [id, offset] : streamed) {
    std::byte* to = pinned_weights_.data() + offset;
    for (const Transfer& transfer : transfers_of(id, {})) {
      reads.push_back({to, transfer.from, transfer.bytes});
      to += transfer.bytes;
    }
  }
  DIF_TRY(read_to_host(reads, weights_.threads));
  for (const auto& [id, offset] : streamed) sources_[id] = {pinned_weights_.data() + offset, -1, 0, true};
  host_weights_.clear();
  return ok();
}

/// Hands back the constants that no run reads.
void Executor::release_read(const ExecutorOptions& options) {
  if (!options.release) return;
  std::vector<bool> read(program_.values.size());
  for (ir::ValueId id = 0; id < placed_.size(); ++id) {
    const bool later =
        placed_[id] == Placed::kStreamed || (weights_.lazy && placed_[id] == Placed::kResident);
    if (!later || sources_[id].pinned) continue;
    for (const plan::ConstantBytes& run :
         plan::constant_bytes(program_, id).value_or(std::vector<plan::ConstantBytes>()))
      read[run.constant] = true;
  }
  for (std::uint32_t i = 0; i < program_.constants.size(); ++i)
    if (!read[program_.constants[i]]) options.release(i);
}

/// Makes the stream of a schedule ready for the next run.
Status Executor::open_stream(const Schedule& schedule) {
  if (schedule.ring.stages.empty()) return ok();
  // After a run that stopped between two stages the next stage would not be the first.
  if (stream_ != nullptr && streamed_schedule_ == &schedule && !stream_->within_run()) return ok();
  if (stream_ != nullptr) past_direct_bytes_ += stream_->direct_bytes();
  stream_.reset();
  if (ring_.bytes() < schedule.ring.bytes) {
    recorded_ = {};
    ring_ = DeviceBuffer();
    DIF_ASSIGN(ring_, DeviceBuffer::create(device_, schedule.ring.bytes));
  }
  std::vector<StreamStage> stages;
  std::vector<BufferView> places(program_.values.size());
  for (std::uint32_t i = 0; i < schedule.ring.stages.size(); ++i) {
    place_stage(schedule, i, places);
    StreamStage& stage = stages.emplace_back();
    stage.overwrites = schedule.ring.stages[i].overwrites;
    for (const std::uint32_t weight : schedule.ring.stages[i].weights) {
      const ir::ValueId root = schedule.use.weights[weight].value;
      for (Transfer& transfer : transfers_of(root, places[root])) stage.transfers.push_back(transfer);
    }
  }
  DIF_ASSIGN(stream_, WeightStream::create(device_, std::move(stages), weights_));
  streamed_schedule_ = &schedule;
  return ok();
}

/// Where the weights of a stage are while its step runs.
void Executor::place_stage(const Schedule& schedule, std::uint32_t stage,
                           std::vector<BufferView>& places) const {
  std::uint64_t offset = schedule.ring.stages[stage].offset;
  for (const std::uint32_t weight : schedule.ring.stages[stage].weights) {
    const plan::PlacedWeight& placed = schedule.use.weights[weight];
    places[placed.value] = {ring_.view().base, ring_.view().offset + offset};
    offset = align_up(offset + placed.bytes, kRingAlignment);
  }
}

}  // namespace dif::runtime
