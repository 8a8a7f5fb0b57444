#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
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
/// Without statistics each thread writes V elements, wherever rows begin. With them a block takes whole rows:
/// what statistics are about is put into shared memory where it fits and pulled again where it does not, the
/// statistics follow, and then the elements that are written. The order of a sum depends on the length of the
/// vector alone, so that a group has the bits of its operations.
class RowText {
 public:
  explicit RowText(const runtime::GroupRequest& request);

  /// Declines what has no text: dtypes, lengths that 32 bits do not count.
  Status check() const;
  /// A kernel `rows`: the group's inputs, then its outputs. Pre: check passed.
  std::string text();

  static constexpr int kThreads = 256;
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
  std::string statistics(const RowStep& step, const std::string& p) const;
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
  void statistics_phase(const RowStep& step);
  void statistics_sums(const RowStep& step);
  void write_phase();
  std::string parameters() const;

  std::vector<RowStep> steps_;
  std::vector<std::size_t> outputs_;  ///< steps whose results are written, in the order of the outputs
  std::map<std::size_t, const ir::TensorType*> inputs_;
  std::int64_t rows_ = 1;
  int vector_ = 1;
  std::int64_t rows_of_block_ = 0;                     ///< 0: no statistics
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
