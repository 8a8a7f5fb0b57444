#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/program.h"
#include "plan/plan.h"
#include "plan/residency.h"
#include "runtime/device.h"
#include "runtime/execution_options.h"
#include "runtime/kernel.h"
#include "runtime/shared_arena.h"
#include "runtime/weight_options.h"
#include "runtime/weight_stream.h"

namespace dif::runtime {

/// A constant as the caller of prepare has it.
struct HostConstant {
  const void* data = nullptr;
  std::uint64_t bytes = 0;
  int fd = -1;  ///< of a file that holds the same bytes, or -1
  std::uint64_t file_offset = 0;
};

struct ExecutorOptions {
  std::span<const KernelEntry> kernels;  ///< outlives the executor
  bool executes = true;                  ///< false: plan only; a run writes zeros
  std::function<void(std::uint32_t constant)> release;
  std::span<const GroupKernelEntry> group_kernels = {};
  plan::FusionRules fusion = {};  ///< what the group kernels can execute
  plan::PitchRules pitches = {};  ///< what kernels and group kernels take besides dense tensors
  /// Decide and report: no constant is read (their pointers may be null), nothing is kept, a run is refused.
  bool plan_only = false;
  /// What a device without a copy lane may hold, for a plan that is refused as preparing would be; 0 = no
  /// cap.
  std::uint64_t cap_bytes = 0;
  WeightOptions weights = {};  ///< for a device with a copy lane
  ExecutionOptions execution = {};
};

/// One operation, or one group, that ran.
struct OpTrace {
  ir::OpId op = 0;           ///< the first of a group
  const char* op_name = "";  ///< of a group: the names of its operations, joined by +
  const char* kernel = "";
  std::uint64_t nanoseconds = 0;
};

struct RunHooks {
  std::function<bool()> cancelled;            ///< polled before each operation
  std::function<void(const OpTrace&)> trace;  ///< empty = no tracing
  bool check_operations = false;              ///< stop at the first operation whose result is not finite
};

struct ExecutorReport {
  std::uint64_t arena_bytes = 0;
  std::uint64_t workspace_bytes = 0;
  std::uint64_t resident_bytes = 0;
  std::uint64_t streamed_bytes = 0;  ///< fetched in every run
  std::uint64_t ring_bytes = 0;      ///< through which they go
  std::uint64_t prepacked_bytes = 0;
  std::uint64_t pinned_host_bytes = 0;
  std::uint32_t host_operations = 0;  ///< that leave the device
  std::string details;                ///< JSON: kernel per operation, groups, why others declined
};

/// A verified program made ready on a device: constants folded, operations grouped, kernels chosen, memory
/// planned. On a device with a copy lane weights come from their files: those that the budget holds once, the
/// others in every run (plan/residency.h). Where the device records, a run that is repeated with the same
/// memory is recorded, and from then on submitted as a whole, or between two streamed weights as a whole. A
/// run that checks operations runs them one by one, groups taken apart; that needs more memory than the
/// report says.
class Executor {
 public:
  /// Takes the program; constants[i] belongs to program.constants[i] and stays valid while the executor lives
  /// or until options.release(i). Without a budget and without release, weights may still be on their way to
  /// a device with a copy lane when this returns. Errors: Declined (an operation without a kernel; all of
  /// them are named), OutOfMemory, ...
  static Result<std::unique_ptr<Executor>> prepare(ir::Program program, std::vector<HostConstant> constants,
                                                   Device& device, SharedArena& arena,
                                                   const ExecutorOptions& options);

  ~Executor();

  /// inputs[i] and outputs[i] are device memory of the program's input and output types. Outputs are written
  /// after the last operation, so that an output may be the same memory as any input.
  Status run(std::span<const BufferView> inputs, std::span<const BufferView> outputs, const RunHooks& hooks);

  /// The same in two halves, for a host that goes on in between: what run() submits, and what it asks the
  /// kernels once the device is done with it.
  Status start(std::span<const BufferView> inputs, std::span<const BufferView> outputs,
               const RunHooks& hooks);
  Status complete();
  /// Waits for weights that are on their way, as the first run does; the report says how long they took.
  /// Errors: Io (a file that shrank), ...
  Status finish_loading();

  const ir::Program& program() const { return program_; }
  const plan::Plan& plan() const { return plan_; }
  const ExecutorReport& report() const { return report_; }
  /// Of its weights, what was read past the page cache until now.
  std::uint64_t direct_bytes() const {
    return loading_.direct_bytes + past_direct_bytes_ + (stream_ == nullptr ? 0 : stream_->direct_bytes());
  }
  /// The operation that the last run failed at; kNoId when it did not fail at one.
  ir::OpId failed_operation() const { return failed_operation_; }
  void forget_failure() { failed_operation_ = ir::kNoId; }

 private:
  /// One operation or group with its kernel.
  struct Step {
    ir::OpId op = 0;          ///< the first of a group
    std::string description;  ///< "add", "mul+add"
    std::vector<ir::ValueId> in, out;
    const char* kernel_name = "";
    std::unique_ptr<Kernel> kernel;  ///< null when all declined, and after planning only
    std::uint64_t workspace_bytes = 0, prepacked_bytes = 0;
    double flop = 0;
    bool on_host = false;     ///< leaves the device
    std::string choice;       ///< Kernel::choice
    std::vector<bool> reads;  ///< per `in`: whether a run reads it if it is constant
    std::vector<std::string> declined;
  };
  /// A group that runs operation by operation because no kernel takes it.
  struct DeclinedGroup {
    plan::Group group;
    std::vector<std::string> declined;
  };
  static constexpr std::uint32_t kNoStage = UINT32_MAX;
  /// Steps that follow each other with nothing to wait for between them.
  struct Segment {
    std::size_t first = 0, end = 0;  ///< of the order
    std::uint32_t stage = kNoStage;  ///< of the ring, whose weights the one step reads
  };
  /// The steps of a run, and what is streamed for them.
  struct Schedule {
    std::vector<const Step*> order;
    std::vector<Segment> segments;
    plan::WeightUse use;
    plan::Ring ring;
  };
  /// The program without groups, for runs that check operations.
  struct Apart {
    plan::Plan plan;
    std::vector<Step> steps;  ///< of the operations that are in groups
    Schedule schedule;
    std::uint64_t workspace_bytes = 0;
  };
  enum class Placed : std::uint8_t { kNowhere, kResident, kStreamed };

  /// A recorded run, for the memory that it reads and writes.
  struct Recorded {
    std::vector<BufferView> memory;  ///< inputs, outputs, arena, workspace
    std::vector<std::unique_ptr<Recording>> segments;
  };

  Executor(ir::Program program, Device& device, SharedArena& arena, std::span<const KernelEntry> kernels);

  Status bind_constants(std::vector<HostConstant> constants);
  Status stand_in_for_constants();
  void count_readers();
  Status fold(std::span<const ir::ValueId> values);
  void drop_reader(ir::ValueId value);
  Status fold_operation(ir::OpId op);
  Status make_groups(const ExecutorOptions& options, std::vector<Step>& group_steps);
  Status make_wholes(const ExecutorOptions& options, std::vector<plan::Group>& kept,
                     std::vector<Step>& group_steps);
  Status make_steps(std::vector<Step> group_steps);
  template <class Entries, class Request, class Serves>
  Status ask(Step& step, const Entries& entries, const Request& request, Serves serves);
  template <class Work>
  Status for_weights(Work work);
  Status check_choices() const;
  Result<Step> make_step(ir::OpId op);
  Result<Step> make_group_step(const plan::Group& group, const ExecutorOptions& options, bool is_whole);
  void release_unread(const ExecutorOptions& options);
  void make_report(const ExecutorOptions& options, double seconds);
  Status plan_memory(std::uint64_t cap_bytes);
  Status take_apart();

  // executor_weights.cpp: weights on a device with a copy lane
  void take_sources(const std::vector<HostConstant>& constants);
  Status place_weights(const ExecutorOptions& options);
  Result<std::vector<ir::ValueId>> constants_to_keep(const plan::WeightUse& use) const;
  Status list_fold(ir::ValueId root);
  Status decide_residency(const ExecutorOptions& options, std::uint64_t workspace_bytes);
  Status load_weights(const ExecutorOptions& options);
  Result<Loading> bring(std::vector<Transfer> transfers, std::uint64_t bytes);
  Status load_pending(bool beside);
  void add_loading(std::string& details) const;
  Status compute(ir::ValueId root, BufferView to);
  std::vector<Transfer> transfers_of(ir::ValueId root, BufferView to) const;
  Status keep_on_host();
  void release_read(const ExecutorOptions& options);
  void make_schedule(Schedule& schedule) const;
  plan::WeightUse weight_use(const std::vector<const Step*>& order, std::vector<std::size_t>& position) const;
  Status open_stream(const Schedule& schedule);
  void place_stage(const Schedule& schedule, std::uint32_t stage, std::vector<BufferView>& places) const;

  Status execute(const Step& step, const std::vector<BufferView>& places, BufferView workspace);
  Status run_step(const Step& step, const std::vector<BufferView>& places, const RunHooks& hooks,
                  bool marks_time);
  Status tell_times(std::span<const Step* const> steps, const RunHooks& hooks);
  Status run_segments(const Schedule& schedule, std::vector<BufferView>& places,
                      std::span<const BufferView> outputs, const RunHooks& hooks, bool recorded);
  Status submit(const Schedule& schedule, std::size_t segment, const std::vector<BufferView>& places,
                std::span<const BufferView> outputs, const RunHooks& hooks);
  Status submit_recorded(std::size_t segment, const std::vector<BufferView>& places,
                         std::span<const BufferView> outputs, const RunHooks& hooks);
  bool may_replay(std::span<const BufferView> inputs, std::span<const BufferView> outputs);
  Status check_finite(const Step& step, const std::vector<BufferView>& places);
  Status write_outputs(std::span<const BufferView> outputs, const std::vector<BufferView>& places);
  BufferView place(ir::ValueId value, const std::vector<BufferView>& places) const;
  std::vector<plan::Pitch> pitches(const std::vector<ir::ValueId>& values) const;
  bool is_in_place(ir::OpId op) const;

  ir::Program program_;
  plan::Plan plan_;
  Device& device_;
  SharedArena& arena_;
  std::vector<ir::OpView> views_;         ///< per operation
  std::vector<BufferView> fixed_places_;  ///< per root value: constants and folded values
  std::vector<DeviceBuffer> owned_;       ///< per root value: copies of constants, folded values
  std::vector<std::uint32_t> readers_;    ///< per root value: who may still read it while kernels are made
  std::vector<bool> folds_made_;          ///< per operation
  std::unique_ptr<void, void (*)(void*)> stand_in_{nullptr,
                                                   nullptr};  ///< for all constants when planning only
  DeviceBuffer device_stand_in_;
  std::span<const KernelEntry> kernels_;
  ExecutionOptions execution_;
  Schedule schedule_;
  const Schedule* started_ = &schedule_;  ///< of the run that was started
  std::vector<Step> steps_;               ///< in the order of execution
  std::vector<Step> folded_steps_;        ///< without their kernels, for the report
  std::vector<DeclinedGroup> declined_groups_;
  std::vector<plan::Refusal> refusals_;
  std::optional<Apart> apart_;
  Recorded recorded_;
  bool records_ = true;  ///< false once a recording failed
  ExecutorReport report_;
  /// Where the time of preparing went, seconds.
  struct PrepareTimes {
    double weights = 0, kernels = 0;
    std::map<std::string, double> by_kernel;  ///< of `kernels`, by the name of who was asked
  };
  PrepareTimes times_;
  bool executes_ = true;
  bool plan_only_ = false;
  std::uint64_t planned_bytes_ = 0;  ///< of weights, that the arena counts while this lives
  ir::OpId failed_operation_ = ir::kNoId;

  // On a device with a copy lane:
  bool late_ = false;
  WeightOptions weights_;
  std::vector<HostSource> sources_;  ///< per value: of constants, and of computed ones kept on the host
  std::vector<Placed> placed_;       ///< per root value
  std::optional<plan::Residency> residency_;
  std::vector<Transfer> pending_;             ///< resident weights that the first run fetches
  std::shared_future<Result<Loading>> load_;  ///< of weights that are on their way
  Uploader* loader_ = nullptr;                ///< which brings them
  Loading loading_;
  std::map<ir::ValueId, DeviceBuffer> shared_folds_;  ///< while folded values are computed
  std::uint64_t past_direct_bytes_ = 0;               ///< of streams that are gone
  PinnedBuffer pinned_weights_;                       ///< streamed weights, with WeightOptions::host_pinned
  std::vector<std::vector<std::byte>> host_weights_;  ///< streamed ones that were computed
  DeviceBuffer resident_, ring_;
  const Schedule* streamed_schedule_ = nullptr;  ///< that stream_ serves
  std::unique_ptr<WeightStream> stream_;
};

}  // namespace dif::runtime
