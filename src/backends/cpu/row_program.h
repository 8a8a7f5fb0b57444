#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "backends/cpu/row_operation.h"
#include "runtime/kernel.h"

/// A group of operations, laid out for a core: what runs one after the other, and where everything is
/// meanwhile.
namespace dif::cpu {

/// How an operation works in a group; null: it has no such form.
struct RowForm {
  const ir::OpDef* op;
  RowFunction (*rows)();
  const char* scalar;  ///< the attribute that is RowOperation::value
};
const RowForm* row_form_of(const ir::OpDef& op);

/// Where the elements of an operand or a result are.
struct Place {
  enum Kind { kTile, kRows, kInput, kOutput };
  Kind kind = kTile;
  std::uint32_t index = 0;  ///< of the kernel's `in` or `out`
  std::int64_t offset =
      0;  ///< kTile: bytes in front of it; kRows: those per row; kInput: from the start of a row
  std::int64_t step = 0;  ///< bytes from row to row; kInput, 0: read whole
};

struct RowInstruction {
  struct Operand {
    Place place;
    DType dtype = DType::kF32;
    std::int64_t columns = 0;
    bool dense = true;
  };

  RowFunction run = nullptr;
  RowOperation operation;
  std::vector<Operand> operands;
  Place result;
  std::uint32_t copied_to = runtime::kNoOutput;  ///< output that the result is copied to, past the caches
  bool past_caches = false;                      ///< the result, an output, is written past the caches
};

/// Instructions that run together: on all rows of a block, or, when they are element-wise, tile by tile.
struct RowSegment {
  std::size_t first = 0, end = 0;
  std::int64_t width = 0;  ///< elements of a row
  std::int64_t tile = 0;   ///< elements of a tile; 0: there are none
};

/// A run of bytes of each row of an input.
struct RowPart {
  std::uint32_t input = 0;
  std::int64_t offset = 0, step = 0, bytes = 0;
  bool operator==(const RowPart&) const = default;
};

class RowProgram {
 public:
  explicit RowProgram(const runtime::GroupRequest& request);

  const std::vector<RowInstruction>& instructions() const { return instructions_; }
  const std::vector<RowSegment>& segments() const { return segments_; }
  /// What is read row by row.
  const std::vector<RowPart>& reads() const { return reads_; }
  /// Nothing but element-wise operations on whole rows: a processor fetches such runs by itself.
  bool reads_in_one_run() const {
    return !one_row_at_a_time_ &&
           std::ranges::all_of(segments_, [](const RowSegment& s) { return s.tile != 0; });
  }
  std::size_t most_operands() const { return most_operands_; }
  /// Parts of rows are read where they are: the rows of a block would not lie side by side.
  bool one_row_at_a_time() const { return one_row_at_a_time_; }

  std::int64_t rows() const { return rows_; }
  std::int64_t tile_bytes() const { return tile_scratch_.size(); }
  /// Scratch memory of one row; every part is as many times as long as a block has rows.
  std::int64_t row_bytes() const { return row_scratch_.size(); }
  /// Of the results of one row: bytes of the widest, elements of all.
  std::int64_t widest_bytes() const { return widest_bytes_; }
  std::int64_t row_elements() const { return row_elements_; }
  /// What is read row by row comes out of memory.
  bool reads_memory() const { return moved_bytes_ >= kFromMemoryBytes; }
  bool writes_past_caches() const { return writes_past_caches_; }

 private:
  /// Bytes read and written by a group from which on they come out of memory.
  static constexpr std::int64_t kFromMemoryBytes = 4 << 20;

  /// Gives memory to values, that of dead ones again.
  class Scratch {
   public:
    std::int64_t take(std::int64_t bytes);
    void give_back(std::int64_t at, std::int64_t bytes) { free_.push_back({at, bytes}); }
    std::int64_t size() const { return size_; }

   private:
    struct Part {
      std::int64_t at, bytes;
    };
    std::vector<Part> free_;
    std::int64_t size_ = 0;
  };

  /// The result of an operation.
  struct Value {
    Place place;
    std::int64_t bytes = 0;      ///< in scratch memory, for a tile or a row
    std::uint32_t last_use = 0;  ///< operation after which nobody reads it
    std::uint32_t segment = 0;   ///< where it is made
    bool is_part = false;        ///< a slice that is read where it is
  };

  /// Bytes of the widest operand or result that element-wise operations hand on to each other at a time: many
  /// enough that calls cost little, and few enough that a core goes on reading memory while it computes.
  std::int64_t tile_size() const { return reads_memory() ? 2 << 10 : 4 << 10; }
  void find_values(const runtime::GroupRequest& request);
  void find_reads(const runtime::GroupRequest& request);
  void add(const runtime::GroupRequest& request, std::uint32_t index);
  bool is_wide_part(const runtime::GroupOp& source) const;
  RowInstruction::Operand operand_of(const runtime::GroupOp& source, std::size_t i) const;
  void place_result(const runtime::GroupOp& source, std::uint32_t index, RowInstruction& instruction);
  void give_back_after(std::uint32_t index);

  std::int64_t rows_;
  std::vector<Value> values_;  ///< per operation
  std::vector<RowInstruction> instructions_;
  std::vector<RowSegment> segments_;
  std::vector<RowPart> reads_;
  Scratch tile_scratch_, row_scratch_;
  std::uint32_t open_segment_ = 0;  ///< Value::segment of the last of segments_
  std::size_t most_operands_ = 0;
  std::int64_t widest_bytes_ = 1, row_elements_ = 0, moved_bytes_ = 0;
  bool one_row_at_a_time_ = false, writes_past_caches_ = false;
};

}  // namespace dif::cpu
