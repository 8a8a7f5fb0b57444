#pragma once

#include <cstddef>
#include <list>
#include <string>
#include <vector>

#include "base/error.h"
#include "ir/program.h"

namespace dif::opt {

/// A verified program that is being rewritten: operations are put in before others, values replaced by equal
/// ones. What nobody reads any more goes at once; finish() numbers what is left anew. Identifiers stay valid
/// until then. Provenance follows: a new operation belongs to the module of one that is there, and a boundary
/// goes with the value that replaces its value, or is dropped with it.
class Editor {
 public:
  /// Takes the program over; nothing else touches it until finish().
  explicit Editor(ir::Program& program);
  Editor(const Editor&) = delete;
  Editor& operator=(const Editor&) = delete;

  // --- reading

  const ir::Program& program() const { return program_; }
  const ir::TensorType& type(ir::ValueId value) const { return program_.type(value); }
  const ir::Op& op(ir::OpId id) const { return program_.ops.at(id); }
  ir::OpView view(ir::OpId id) const { return program_.view(id); }
  /// The operation whose result `value` is, or null for inputs and constants.
  const ir::Op* producer(ir::ValueId value) const;
  /// The operations that read `value`, once per operand that is it.
  const std::vector<ir::OpId>& readers(ir::ValueId value) const { return readers_.at(value); }
  bool is_output(ir::ValueId value) const { return n_outputs_.at(value) != 0; }
  /// Whether one operation alone reads `value`, and only once.
  bool has_one_reader(ir::ValueId value) const { return readers(value).size() == 1 && !is_output(value); }
  /// Whether `value` depends on constants alone (a constant does): it is computed once, at prepare.
  bool is_constant(ir::ValueId value) const { return constant_.at(value); }
  /// Whether the operation is still there.
  bool is_alive(ir::OpId id) const { return alive_.at(id); }
  /// The operations that are there, in execution order.
  std::vector<ir::OpId> order() const { return {order_.begin(), order_.end()}; }
  /// How often the program was changed.
  std::size_t changes() const { return changes_; }

  // --- changing

  /// Puts an operation before `before`; its first result. It joins the module of `like`, an operation that is
  /// or was there, or that of `before`. Pre: `before` is there. Error: Internal, when it breaks a constraint.
  Result<ir::ValueId> emit(ir::OpId before, const ir::OpDef& def, std::vector<ir::ValueId> operands,
                           std::vector<ir::Attr> attrs, ir::OpId like = ir::kNoId);
  /// Lets every reader of `from`, and every output, have `to` instead. Pre: the types agree and `to` is there
  /// before each reader.
  void replace(ir::ValueId from, ir::ValueId to);
  /// Takes out every operation whose results nobody reads, with what it alone read.
  void remove_dead();
  /// Takes the constants that nobody reads out of the program; their names.
  std::vector<std::string> drop_constants();
  /// Renumbers: inputs and constants in the order of their lists, then results in execution order. Without a
  /// change the program is as it was.
  void finish();

 private:
  void add_value(ir::ValueId id);
  void remove_if_dead(ir::OpId id);
  void forget_reader(ir::ValueId value, ir::OpId reader);

  ir::Program& program_;
  std::list<ir::OpId> order_;
  std::vector<std::list<ir::OpId>::iterator> positions_;  ///< per operation
  std::vector<bool> alive_;                               ///< per operation
  std::vector<std::vector<ir::OpId>> readers_;            ///< per value
  std::vector<unsigned> n_outputs_;                       ///< per value
  std::vector<bool> constant_;                            ///< per value
  std::size_t changes_ = 0;
};

}  // namespace dif::opt
