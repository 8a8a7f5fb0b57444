#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "fuzz/mutation.h"
#include "ir/op_def.h"
#include "ir/program.h"
#include "ir/verifier.h"

namespace dif::fuzz {

/// Changes what a decoded program says: types, operations, operands, attributes, lists, names. What comes out
/// can be encoded, and is often wrong in one place only, or nowhere.
class ProgramMutation {
 public:
  ProgramMutation(ir::Program& program, Random& random) : program_(program), random_(random) {}

  void run() {
    for (std::size_t n = 1 + random_.below(3); n > 0; --n) change_once();
    if (!random_.one_in(3)) infer_results();
  }

 private:
  void change_once() {
    switch (random_.below(8)) {
      case 0:
      case 1:
        return change_type();
      case 2:
        return change_op();
      case 3:
        return change_operands();
      case 4:
      case 5:
        return change_attr();
      case 6:
        return change_lists();
      default:
        return change_name();
    }
  }

  void change_type() {
    if (program_.values.empty()) return;
    ir::TensorType& type = random_.of(program_.values).type;
    const auto dims = type.shape.dims();
    std::vector<std::int64_t> next(dims.begin(), dims.end());
    switch (random_.below(5)) {
      case 0:
        type.dtype = static_cast<DType>(random_.below(kDTypeCount));
        return;
      case 1:
        if (next.size() < Shape::kMaxRank) next.push_back(dimension());
        break;
      case 2:
        if (!next.empty()) next.pop_back();
        break;
      case 3:
        if (!next.empty()) std::swap(random_.of(next), random_.of(next));
        break;
      default:
        if (!next.empty()) random_.of(next) = dimension();
    }
    type.shape = Shape(next);
  }

  void change_op() {
    const auto defs = ir::all_ops();
    switch (random_.below(4)) {
      case 0:
        if (!program_.ops.empty()) set_def(random_.of(program_.ops), *defs[random_.below(defs.size())]);
        return;
      case 1:  // one more operation, which reads what is there
        if (program_.values.empty()) return;
        program_.ops.emplace_back();
        set_def(program_.ops.back(), *defs[random_.below(defs.size())]);
        for (std::size_t n = 1 + random_.below(3); n > 0; --n)
          program_.ops.back().operands.push_back(any_value());
        program_.ops.back().results.push_back(static_cast<ir::ValueId>(program_.values.size()));
        program_.values.push_back({.producer = static_cast<ir::OpId>(program_.ops.size() - 1)});
        if (random_.one_in(2)) program_.outputs.push_back({"more", program_.ops.back().results[0]});
        return;
      case 2:
        if (!program_.ops.empty()) std::swap(random_.of(program_.ops), random_.of(program_.ops));
        return;
      default:
        if (!program_.ops.empty()) program_.ops.erase(program_.ops.begin() + index_of(program_.ops));
    }
  }

  void change_operands() {
    if (program_.ops.empty()) return;
    ir::Op& op = random_.of(program_.ops);
    auto& ids = random_.one_in(4) ? op.results : op.operands;
    change_ids(ids);
  }

  void change_attr() {
    std::vector<std::pair<ir::Op*, std::size_t>> places;
    for (ir::Op& op : program_.ops)
      for (std::size_t i = 0; i < op.attrs.size(); ++i) places.emplace_back(&op, i);
    if (places.empty()) return;
    const auto [op, i] = random_.of(places);
    if (random_.one_in(16)) {
      op->attrs.pop_back();
      return;
    }
    ir::Attr& attr = op->attrs[i];
    if (auto* number = std::get_if<std::int64_t>(&attr)) {
      *number = dimension();
    } else if (auto* real = std::get_if<float>(&attr)) {
      static constexpr float kEdges[] = {0.0f, -0.0f, 1.0f, -1.0f, 1e-38f, 3e38f, 1e-6f};
      *real = random_.one_in(4) ? *real / 0.0f : random_.of(kEdges);
    } else if (auto* flag = std::get_if<bool>(&attr)) {
      *flag = !*flag;
    } else if (auto* dtype = std::get_if<DType>(&attr)) {
      *dtype = static_cast<DType>(random_.below(kDTypeCount));
    } else if (auto* numbers = std::get_if<ir::Integers>(&attr)) {
      if (numbers->empty() || random_.one_in(3))
        numbers->push_back(dimension());
      else if (random_.one_in(3))
        numbers->pop_back();
      else
        random_.of(*numbers) = dimension();
    }
    if (random_.one_in(16)) attr = std::int64_t{1};
  }

  void change_lists() {
    switch (random_.below(4)) {
      case 0:
        return change_ids(program_.inputs);
      case 1:
        return change_ids(program_.constants);
      case 2:
        if (!program_.values.empty()) program_.outputs.push_back({name(), any_value()});
        return;
      default:
        if (!program_.outputs.empty()) random_.of(program_.outputs).value = any_value();
    }
  }

  void change_name() {
    switch (random_.below(3)) {
      case 0:
        program_.name = name();
        return;
      case 1:
        if (!program_.outputs.empty()) random_.of(program_.outputs).name = name();
        return;
      default:
        if (!program_.values.empty()) random_.of(program_.values).name = name();
    }
  }

  void change_ids(std::vector<ir::ValueId>& ids) {
    if (ids.empty() || random_.one_in(4))
      ids.push_back(any_value());
    else if (random_.one_in(3))
      ids.erase(ids.begin() + index_of(ids));
    else if (random_.one_in(2))
      std::swap(random_.of(ids), random_.of(ids));
    else
      random_.of(ids) = any_value();
  }

  /// Gives every result the type that its operation infers, as far as the operations hold.
  void infer_results() {
    for (ir::OpId id = 0; id < program_.ops.size(); ++id) {
      const ir::Op& op = program_.ops[id];
      const auto exists = [&](ir::ValueId value) { return value < program_.values.size(); };
      if (!std::ranges::all_of(op.operands, exists) || !std::ranges::all_of(op.results, exists)) return;
      for (const ir::ValueId operand : op.operands)
        if (!ir::verify_type(program_.type(operand), "operand")) return;
      const ir::OpView view = program_.view(id);
      if (!ir::verify_op(view)) return;
      const ir::Types types = op.def->infer(view);
      for (std::size_t i = 0; i < std::min(types.size(), op.results.size()); ++i)
        program_.values[op.results[i]].type = types[i];
    }
  }

  static void set_def(ir::Op& op, const ir::OpDef& def) {
    op.def = &def;
    op.attrs.clear();
    for (const ir::AttrDef& attr : def.attrs) op.attrs.push_back(attr.fallback);
  }

  std::int64_t dimension() {
    return random_.one_in(4) ? edge_number(random_) : static_cast<std::int64_t>(random_.below(17));
  }
  ir::ValueId any_value() {
    if (program_.values.empty() || random_.one_in(16)) return static_cast<ir::ValueId>(random_.bits());
    return static_cast<ir::ValueId>(random_.below(program_.values.size()));
  }
  std::string name() {
    static const std::string kNames[] = {
        "", "x", "y", "w", "a.b", "\xff", "two\nlines", std::string(1025, 'n'), std::string("\0", 1)};
    return random_.of(kNames);
  }
  template <class Container>
  std::ptrdiff_t index_of(const Container& container) {
    return static_cast<std::ptrdiff_t>(random_.below(container.size()));
  }

  ir::Program& program_;
  Random& random_;
};

}  // namespace dif::fuzz
