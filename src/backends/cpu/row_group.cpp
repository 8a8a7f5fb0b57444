#include "backends/cpu/row_group.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "backends/cpu/parallel.h"
#include "backends/cpu/row_program.h"
#include "backends/cpu/stream_out.h"
#include "base/checked_math.h"
#include "ops/common/checks.h"

namespace dif::cpu {

namespace {

using ir::RowRule;
using runtime::GroupRequest;
using runtime::KernelArgs;

/// Bytes of a result that a core keeps in its first cache beside what it reads, and of a row in its second.
constexpr std::int64_t kNearBytes = 20 << 10, kFarBytes = 768 << 10;
/// The first where operands come out of memory, and those of the next block already lie beside.
constexpr std::int64_t kNearStreamBytes = 8 << 10;
/// Results of one task, in elements: enough that threads meet rarely.
constexpr std::int64_t kTaskElements = 4 * kBlockElements;
/// Tasks of a large group: few enough that a task's first block, which nobody has fetched, is a small part of
/// it.
constexpr std::int64_t kMostTasks = 128;
constexpr std::int64_t kLine = 64;

/// Shares out the inputs of the next block, to be fetched between the steps of this one.
class Ahead {
 public:
  /// Nothing to fetch.
  Ahead() = default;
  Ahead(const RowProgram& program, const KernelArgs& args, std::int64_t row, std::int64_t n_rows,
        std::int64_t steps)
      : program_(&program), args_(&args), row_(row), n_rows_(n_rows) {
    std::int64_t lines = 0;
    for (const RowPart& part : program.reads()) lines += ceil_div(part.bytes * n_rows, kLine);
    step_bytes_ = ceil_div(lines, steps) * kLine;
  }

  Traffic next(bool past_caches) {
    if (step_bytes_ == 0 || part_ == program_->reads().size()) return {past_caches};
    const RowPart& part = program_->reads()[part_];
    const std::byte* const p = args_->in[part.input].data<std::byte>() + row_ * part.step + part.offset + at_;
    const std::int64_t bytes = std::min(part.bytes * n_rows_ - at_, step_bytes_);
    at_ += bytes;
    if (at_ == part.bytes * n_rows_) at_ = 0, ++part_;
    return {past_caches, p, static_cast<std::size_t>(bytes)};
  }

 private:
  const RowProgram* program_ = nullptr;
  const KernelArgs* args_ = nullptr;
  std::int64_t row_ = 0, n_rows_ = 0, step_bytes_ = 0;
  std::size_t part_ = 0;
  std::int64_t at_ = 0;  ///< bytes of the part that were fetched
};

class RowGroup final : public runtime::Kernel {
 public:
  explicit RowGroup(const GroupRequest& request) : program_(request), slots_(thread_count()) {
    const std::int64_t rows = program_.rows();
    fetches_ = program_.reads_memory() && !program_.reads_in_one_run();
    const std::int64_t near = program_.reads_memory() ? kNearStreamBytes : kNearBytes;
    if (!program_.one_row_at_a_time()) block_rows_ = std::clamp<std::int64_t>(near / kept_bytes(), 1, rows);
    const std::int64_t task_rows =
        std::max(std::max<std::int64_t>(1, kTaskElements / program_.row_elements()), rows / kMostTasks);
    task_rows_ = ceil_div(task_rows, block_rows_) * block_rows_;
    for (const RowInstruction& instruction : program_.instructions()) {
      first_cursor_.push_back(n_cursors_);
      n_cursors_ += instruction.operands.size() + 1;
    }
  }

  /// Bytes of one row that are kept at a time.
  std::int64_t kept_bytes() const { return std::max(program_.row_bytes(), program_.widest_bytes()); }
  std::uint64_t workspace_bytes() const override { return static_cast<std::uint64_t>(slots_ * slot_bytes()); }

  Status run(const KernelArgs& args) override {
    for_blocks_balanced(ceil_div(program_.rows(), task_rows_), slots_, [&](std::int64_t task, int slot) {
      Core core = {args, args.workspace.pointer() + slot * slot_bytes(), {}, {}};
      core.cursors.resize(n_cursors_);
      core.operands.resize(program_.most_operands());
      const std::int64_t end = std::min((task + 1) * task_rows_, program_.rows());
      for (std::int64_t row = task * task_rows_; row < end; row += block_rows_)
        run_block(core, row, std::min(block_rows_, end - row), end);
      if (program_.writes_past_caches()) finish_stream();
    });
    return ok();
  }

 private:
  /// Where a block's elements are: element i at data + i * step.
  struct Cursor {
    std::byte* data;
    std::int64_t step;
  };

  /// What a thread works with.
  struct Core {
    const KernelArgs& args;
    std::byte* scratch;
    std::vector<Cursor> cursors;  ///< per instruction: of the operands, then of the result
    std::vector<RowOperand> operands;
  };

  std::int64_t slot_bytes() const { return program_.tile_bytes() + program_.row_bytes() * block_rows_; }

  /// Elements that a segment's instructions go through at a time, of n.
  static std::int64_t step_of(const RowSegment& segment, std::int64_t n) {
    return segment.tile == 0 ? n : std::min(segment.tile, n);
  }

  std::int64_t steps_of(std::int64_t n_rows) const {
    std::int64_t steps = 0;
    for (const RowSegment& segment : program_.segments()) {
      const std::int64_t n = n_rows * segment.width;
      steps += ceil_div(n, step_of(segment, n)) * static_cast<std::int64_t>(segment.end - segment.first);
    }
    return steps;
  }

  Cursor cursor_of(const Core& core, const Place& place, DType dtype, bool dense, std::int64_t row) const {
    const auto size = static_cast<std::int64_t>(dtype_size(dtype));
    switch (place.kind) {
      case Place::kTile:
        return {core.scratch + place.offset, 0};
      case Place::kRows:
        return {core.scratch + program_.tile_bytes() + place.offset * block_rows_, size};
      case Place::kInput:
        return {core.args.in[place.index].data<std::byte>() + row * place.step + place.offset,
                dense ? size : 0};
      default:
        return {core.args.out[place.index].data<std::byte>() + row * place.step, size};
    }
  }

  /// Some rows of a task, which ends in front of row `end`.
  void run_block(Core& core, std::int64_t row, std::int64_t n_rows, std::int64_t end) const {
    auto cursor = core.cursors.begin();
    for (const RowInstruction& instruction : program_.instructions()) {
      for (const RowInstruction::Operand& operand : instruction.operands)
        *cursor++ = cursor_of(core, operand.place, operand.dtype, operand.dense, row);
      *cursor++ = cursor_of(core, instruction.result, instruction.operation.dtype, true, row);
    }
    Ahead ahead;
    if (const std::int64_t next = row + n_rows; fetches_ && next < end)
      ahead = {program_, core.args, next, std::min(block_rows_, end - next), steps_of(n_rows)};
    for (const RowSegment& segment : program_.segments()) {
      const std::int64_t n = n_rows * segment.width, step = step_of(segment, n);
      for (std::int64_t first = 0; first < n; first += step)
        for (std::size_t i = segment.first; i < segment.end; ++i) {
          const RowInstruction& instruction = program_.instructions()[i];
          Traffic traffic = ahead.next(instruction.past_caches);
          if (segment.tile != 0) fetch_now(traffic);
          run_instruction(core, instruction, core.cursors.data() + first_cursor_[i], row, first,
                          std::min(step, n - first), traffic);
        }
    }
  }

  /// A tile is short, and its few lines are fetched at once.
  static void fetch_now(Traffic& traffic) {
    const std::size_t bytes = std::exchange(traffic.fetch_bytes, 0);
    for (std::size_t i = 0; i < bytes; i += kLine) __builtin_prefetch(traffic.fetch + i, 0, 2);
  }

  /// Elements first .. first + n - 1 of the block that begins at `row`.
  static void run_instruction(Core& core, const RowInstruction& instruction, const Cursor* cursor,
                              std::int64_t row, std::int64_t first, std::int64_t n, const Traffic& traffic) {
    const auto at = [first](const Cursor& cursor) { return cursor.data + first * cursor.step; };
    const RowOperation& operation = instruction.operation;
    const std::size_t n_operands = instruction.operands.size();
    for (std::size_t i = 0; i < n_operands; ++i) {
      const RowInstruction::Operand& operand = instruction.operands[i];
      core.operands[i] = {at(cursor[i]), operand.dtype, operand.dense, operand.columns};
    }
    std::byte* const result = at(cursor[n_operands]);
    const std::int64_t from_start = row * operation.width + first;
    instruction.run({&operation, {core.operands.data(), n_operands}, result, from_start, n, traffic});
    if (instruction.copied_to == runtime::kNoOutput) return;
    const auto size = static_cast<std::int64_t>(dtype_size(operation.dtype));
    stream_out(result, core.args.out[instruction.copied_to].data<std::byte>() + from_start * size,
               static_cast<std::size_t>(n * size));
  }

  const RowProgram program_;
  const int slots_;
  std::vector<std::size_t> first_cursor_;  ///< per instruction
  std::size_t n_cursors_ = 0;
  std::int64_t block_rows_ = 1, task_rows_ = 1;
  bool fetches_ = false;
};

}  // namespace

Status accepts_in_group(const ir::OpView& op) {
  if (row_form_of(op.def()) == nullptr) return runtime::declined("{} has no form for rows", op.def().name);
  for (std::size_t i = 0; i < op.n_ins(); ++i)
    if (!ops::is_float(op.in(i).dtype))
      return runtime::declined("vectors of {} are not read", op.in(i).dtype);
  if (!ops::is_float(op.out().dtype))
    return runtime::declined("vectors of {} are not written", op.out().dtype);
  if (op.def().row_rule == RowRule::kHeads && 2 * op.in(1).dim(1) > kMostRotated)
    return runtime::declined("{} rotated dimensions > {}", 2 * op.in(1).dim(1), kMostRotated);
  return ok();
}

Result<std::unique_ptr<runtime::Kernel>> make_row_group(const GroupRequest& request) {
  auto group = std::make_unique<RowGroup>(request);
  if (group->kept_bytes() > kFarBytes)
    return runtime::declined("{} bytes of one row are more than a core keeps near, {}", group->kept_bytes(),
                             kFarBytes);
  return group;
}

}  // namespace dif::cpu
