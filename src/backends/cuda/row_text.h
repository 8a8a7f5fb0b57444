#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/kernel.h"

namespace dif::cuda {

class RowText;

/// One operation of a row kernel.
struct RowStep {
  const ir::OpView* op = nullptr;
  std::size_t index = 0;  ///< among the steps
  std::vector<runtime::GroupOperand> operands;
};

/// How an operation becomes text. Kernels are made by pulling: the elements that are written ask for the
/// elements that they depend on.
struct RowOperation {
  const ir::OpDef* op = nullptr;
  /// Declares the elements [p, p + V) of the result as an array of the result's storage type, and returns its
  /// name. p counts from the first row of the block; it is a multiple of V.
  std::string (*emit)(RowText& text, const RowStep& step, const std::string& p) = nullptr;
  /// Elements of the result that lie side by side wherever they come from: V divides this. Null: any number.
  std::int64_t (*together)(const ir::OpView& op) = nullptr;
  /// What must be known of the vectors along the last axis of operand 0 before the first element.
  enum Statistics { kNone, kSquares, kMoments } statistics = kNone;
};

/// The operations that row kernels are made of, one in each folder.
std::span<const RowOperation> row_operations();
/// Null when there is none.
const RowOperation* row_operation(const ir::OpDef& op);

/// The text of one kernel for a group of operations (runtime/kernel.h), sizes filled in.
///
/// Without statistics each thread writes V elements, wherever rows begin. With them a thread keeps chunks of
/// a vector in registers, where the threads of a warp or of a block hold whole vectors between them and every
/// element of the group stays in its place. Elsewhere a block takes whole rows: what statistics are about is
/// put into shared memory where it fits and pulled again where it does not, the statistics follow, and then
/// the elements that are written. The order of a sum depends on the length of the vector alone, so that a
/// group has the bits of its operations.
class RowText {
 public:
  explicit RowText(const runtime::GroupRequest& request);

  /// Declines what has no text: dtypes, lengths that 32 bits do not count.
  Status check() const;
  /// A kernel `rows`: the group's inputs, then its outputs. Pre: check passed.
  std::string text();

  // --- of the kernel; known after text() ---
  int threads() const { return in_registers_ ? in_registers_->threads : kThreads; }
  std::int64_t blocks() const;
  int shared_bytes() const;

  // --- for RowOperation::emit ---
  int vector() const { return vector_; }
  /// The elements [p, p + V) of an operand, which has as many elements as the result of its producer, or lies
  /// in memory with the row layout of operand 0. Returns the array's name.
  std::string pull(const RowStep& step, std::size_t operand, const std::string& p);
  /// V elements of an operand in memory, from element `at` of it on (a C expression; a multiple of V).
  std::string load_at(const RowStep& step, std::size_t operand, const std::string& at);
  /// V elements of an operand in memory that broadcasts to the result of `step`.
  std::string load_broadcast(const RowStep& step, std::size_t operand, const std::string& p);
  /// Index in the whole result of its element p.
  std::string absolute(const RowStep& step, const std::string& p) const;
  /// Name of the statistics of the vector that element p of operand 0 belongs to: NAME[0] = mean, NAME[1] =
  /// the factor 1 / sqrt(variance + eps).
  std::string statistics(const RowStep& step, const std::string& p);
  /// A new name.
  std::string fresh(const char* stem);
  void line(const std::string& text) { body_ += text + "\n"; }
  /// Declares an array for V elements of the result of `step`.
  std::string declare(const RowStep& step);
  /// Between these, what is pulled is known only inside.
  void open(const std::string& head);
  void close();

 private:
  using Scope = std::map<std::string, std::string>;  ///< what was pulled -> its name

  /// What the block keeps in shared memory for statistics and what follows them.
  struct Kept {
    std::int64_t offset = 0, width = 0;  ///< bytes; elements of a row
    DType dtype = DType::kF32;
    bool filled = false;  ///< the text so far has put it there
  };

  /// How threads share out vectors that stay in registers.
  struct InRegisters {
    int threads = kThreads;  ///< of a block
    int lanes = 0;           ///< threads that a vector has, in one warp; 0: the whole block
    int chunks = 1;          ///< of a thread: of one vector, or with `lanes` of as many vectors
    std::int64_t length = 0, elements = 0;  ///< of a vector; of the whole value
  };
  /// The position of V elements that a thread has, and the chunk that they are in.
  struct Piece {
    std::string p;
    int chunk = 0;
  };

  static constexpr int kThreads = 256;
  /// Elements that one thread adds up in a row. The partition of a sum must not depend on V.
  static constexpr std::int64_t kChunk = 8;
  /// Vectors up to this long are summed by a warp, longer ones by the block.
  static constexpr std::int64_t kWarpVector = 1024;

  static std::int64_t last_axis(const ir::OpView& op) { return op.in(0).dim(-1); }
  static int block_threads(std::int64_t length);
  const ir::TensorType& result(std::size_t step) const { return steps_[step].op->out(); }
  std::int64_t width(std::size_t step) const { return result(step).numel() / rows_; }
  bool counts_in_32_bits() const;
  bool has_statistics() const { return rows_of_block_ != 0; }
  const std::string* known(const std::string& key) const;
  const Kept* kept(bool inside, std::size_t index) const;
  std::string load_kept(const Kept& kept, const std::string& p);
  std::string pull_step(std::size_t step, const std::string& p);
  std::string element_loop(std::int64_t width, const std::string& variable) const;
  void choose_vector();
  void choose_block();
  void choose_registers();
  void write_in_rows();
  void write_in_registers();
  void statistics_phase(const RowStep& step);
  void statistics_sums(const RowStep& step);
  void statistics_in_registers(const RowStep& step, const std::vector<Piece>& pieces);
  void store_output(std::size_t output, const std::string& p);
  void write_phase();
  std::string parameters() const;

  const plan::Pitch& pitch(bool output, std::size_t index) const;
  std::string placed(const plan::Pitch& pitch, const std::string& at) const;

  std::vector<RowStep> steps_;
  std::vector<plan::Pitch> in_pitches_, out_pitches_;  ///< empty: all dense
  std::vector<std::size_t> outputs_;  ///< steps whose results are written, in the order of the outputs
  std::map<std::size_t, const ir::TensorType*> inputs_;
  std::int64_t rows_ = 1;
  int vector_ = 1;
  std::optional<InRegisters> in_registers_;
  /// Position of elements -> the chunk's number, while statistics are in registers.
  std::map<std::string, int> chunk_of_;
  bool lost_ = false;               ///< statistics of elements of another thread were asked for
  std::int64_t rows_of_block_ = 0;  ///< 0: no statistics, or in registers
  std::map<std::pair<bool, std::size_t>, Kept> kept_;  ///< by GroupOperand
  std::map<std::size_t, std::int64_t> statistics_;     ///< step -> offset of its statistics there
  std::int64_t shared_bytes_ = 0;
  std::vector<Scope> scopes_;
  std::string body_;
  int n_names_ = 0;
};

/// The emit function of an element-wise operation: `Expression` gives the C expression of one element, of
/// operands x[0], x[1], ... (float, or int for i32).
using ElementExpression = std::string (*)(const ir::OpView& op, std::span<const std::string> x);
std::string emit_elements(RowText& text, const RowStep& step, const std::string& p,
                          ElementExpression expression);

/// `{&ops::kSilu, emit_element<silu_element>}`
template <ElementExpression kExpression>
std::string emit_element(RowText& text, const RowStep& step, const std::string& p) {
  return emit_elements(text, step, p, kExpression);
}

/// A float as a C literal with all its bits.
std::string float_literal(float value);

}  // namespace dif::cuda
