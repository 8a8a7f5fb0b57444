#include "backends/cpu/row_group.h"

#include <algorithm>
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

/// Bytes that a core keeps in its first cache beside what streams past, and in its second.
constexpr std::int64_t kNearBytes = 20 << 10, kFarBytes = 768 << 10;
/// Results of one task, in elements: enough that threads meet rarely.
constexpr std::int64_t kTaskElements = 4 * kBlockElements;
/// Tasks of a large group: few enough that a task's first block, which nobody has fetched, is a small part of
/// it.
constexpr std::int64_t kMostTasks = 128;
/// Bytes read and written by a group from which on they come out of memory: fetched ahead.
constexpr std::int64_t kFromMemoryBytes = 4 << 20;
constexpr std::int64_t kLine = 64;

/// Fetches the inputs of the next block into the second cache, a few lines at a time between the steps of
/// this one.
class Ahead {
 public:
  /// Nothing to fetch.
  Ahead() = default;
  Ahead(const RowProgram& program, const KernelArgs& args, std::int64_t row, std::int64_t n_rows,
        std::int64_t steps)
      : program_(&program), args_(&args), row_(row), n_rows_(n_rows) {
    std::int64_t lines = 0;
    for (const RowPart& part : program.reads()) lines += ceil_div(part.bytes * n_rows, kLine);
    lines_per_step_ = ceil_div(lines, steps);
  }

  void step() {
    for (std::int64_t lines = lines_per_step_; lines > 0 && part_ < program_->reads().size();) {
      const RowPart& part = program_->reads()[part_];
      const std::byte* const p = args_->in[part.input].data<std::byte>() + row_ * part.step + part.offset;
      const std::int64_t bytes = part.bytes * n_rows_;
      const std::int64_t end = std::min(bytes, at_ + lines * kLine);
      for (; at_ < end; at_ += kLine, --lines) __builtin_prefetch(p + at_, 0, 2);
      if (at_ < bytes) return;
      at_ = 0;
      ++part_;
    }
  }

 private:
  const RowProgram* program_ = nullptr;
  const KernelArgs* args_ = nullptr;
  std::int64_t row_ = 0, n_rows_ = 0, lines_per_step_ = 0;
  std::size_t part_ = 0;
  std::int64_t at_ = 0;  ///< bytes of the part that were fetched
};

class RowGroup final : public runtime::Kernel {
 public:
  explicit RowGroup(const GroupRequest& request) : program_(request), slots_(thread_count()) {
    const std::int64_t rows = program_.rows();
    block_rows_ =
        program_.one_row_at_a_time() ? 1 : std::clamp<std::int64_t>(kNearBytes / kept_bytes(), 1, rows);
    const std::int64_t task_rows =
        std::max(std::max<std::int64_t>(1, kTaskElements / program_.row_elements()), rows / kMostTasks);
    task_rows_ = ceil_div(task_rows, block_rows_) * block_rows_;
    fetches_ = program_.moved_bytes() >= kFromMemoryBytes;
  }

  /// Bytes of one row that are kept at a time.
  std::int64_t kept_bytes() const { return std::max(program_.row_bytes(), program_.widest_bytes()); }
  std::uint64_t workspace_bytes() const override { return static_cast<std::uint64_t>(slots_ * slot_bytes()); }

  Status run(const KernelArgs& args) override {
    for_blocks_balanced(ceil_div(program_.rows(), task_rows_), slots_, [&](std::int64_t task, int slot) {
      std::byte* const scratch = args.workspace.pointer() + slot * slot_bytes();
      std::vector<RowOperand> operands(program_.most_operands());
      const std::int64_t end = std::min((task + 1) * task_rows_, program_.rows());
      for (std::int64_t row = task * task_rows_; row < end; row += block_rows_)
        run_block({args, scratch, operands, row, std::min(block_rows_, end - row)}, end);
      if (program_.writes_past_caches()) finish_stream();
    });
    return ok();
  }

 private:
  struct Block {
    const KernelArgs& args;
    std::byte* scratch;
    std::vector<RowOperand>& operands;
    std::int64_t row, n_rows;
  };

  std::int64_t slot_bytes() const { return program_.tile_bytes() + program_.row_bytes() * block_rows_; }

  /// Elements that a segment's instructions go through at a time.
  std::int64_t step_of(const RowSegment& segment, std::int64_t n_rows) const {
    const std::int64_t n = n_rows * program_.instructions()[segment.first].operation.width;
    return segment.tiled ? std::min(kTileElements, n) : n;
  }

  std::int64_t steps_of(std::int64_t n_rows) const {
    std::int64_t steps = 0;
    for (const RowSegment& segment : program_.segments()) {
      const std::int64_t n = n_rows * program_.instructions()[segment.first].operation.width;
      steps += ceil_div(n, step_of(segment, n_rows)) * static_cast<std::int64_t>(segment.end - segment.first);
    }
    return steps;
  }

  /// Rows of one task, which ends in front of row `end`.
  void run_block(const Block& block, std::int64_t end) const {
    Ahead ahead;
    if (const std::int64_t next = block.row + block.n_rows; fetches_ && next < end)
      ahead = {program_, block.args, next, std::min(block_rows_, end - next), steps_of(block.n_rows)};
    for (const RowSegment& segment : program_.segments()) {
      const std::int64_t n = block.n_rows * program_.instructions()[segment.first].operation.width;
      const std::int64_t step = step_of(segment, block.n_rows);
      for (std::int64_t first = 0; first < n; first += step)
        for (std::size_t i = segment.first; i < segment.end; ++i) {
          run_instruction(block, program_.instructions()[i], first, std::min(step, n - first));
          ahead.step();
        }
    }
  }

  /// Elements first .. first + n - 1 of the block.
  void run_instruction(const Block& block, const RowInstruction& instruction, std::int64_t first,
                       std::int64_t n) const {
    const auto at = [&](const Place& place, DType dtype, std::int64_t element) {
      const std::int64_t bytes = element * static_cast<std::int64_t>(dtype_size(dtype));
      switch (place.kind) {
        case Place::kTile:
          return block.scratch + place.offset;
        case Place::kRows:
          return block.scratch + program_.tile_bytes() + place.offset * block_rows_ + bytes;
        case Place::kInput:
          return block.args.in[place.index].data<std::byte>() + block.row * place.step + place.offset + bytes;
        default:
          return block.args.out[place.index].data<std::byte>() + block.row * place.step + bytes;
      }
    };
    const RowOperation& operation = instruction.operation;
    for (std::size_t i = 0; i < instruction.operands.size(); ++i) {
      const RowInstruction::Operand& operand = instruction.operands[i];
      block.operands[i] = {at(operand.place, operand.dtype, operand.dense ? first : 0), operand.dtype,
                           operand.dense, operand.columns};
    }
    std::byte* const result = at(instruction.result, operation.dtype, first);
    const std::int64_t from_start = block.row * operation.width + first;
    instruction.run({&operation,
                     {block.operands.data(), instruction.operands.size()},
                     result,
                     from_start,
                     n,
                     instruction.past_caches});
    if (instruction.copied_to == runtime::kNoOutput) return;
    const auto size = static_cast<std::int64_t>(dtype_size(operation.dtype));
    stream_out(result, block.args.out[instruction.copied_to].data<std::byte>() + from_start * size,
               static_cast<std::size_t>(n * size));
  }

  const RowProgram program_;
  const int slots_;
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
