#include "opt/editor.h"

#include <algorithm>

#include "base/check.h"
#include "ir/verifier.h"

namespace dif::opt {

using ir::OpId;
using ir::ValueId;

Editor::Editor(ir::Program& program) : program_(program) {
  for (ValueId id = 0; id < program.values.size(); ++id) add_value(id);
  for (OpId id = 0; id < program.ops.size(); ++id) {
    positions_.push_back(order_.insert(order_.end(), id));
    alive_.push_back(true);
    const ir::Op& op = program.ops[id];
    for (const ValueId operand : op.operands) readers_[operand].push_back(id);
    const bool constant =
        !op.operands.empty() && std::ranges::all_of(op.operands, [&](ValueId v) { return is_constant(v); });
    for (const ValueId result : op.results) constant_[result] = constant;
  }
  for (const ir::Output& output : program.outputs) ++n_outputs_[output.value];
}

void Editor::add_value(ValueId id) {
  readers_.emplace_back();
  n_outputs_.push_back(0);
  constant_.push_back(program_.values[id].kind == ir::ValueKind::kConstant);
}

const ir::Op* Editor::producer(ValueId value) const {
  const OpId id = program_.values.at(value).producer;
  return id == ir::kNoId ? nullptr : &program_.ops.at(id);
}

Result<ValueId> Editor::emit(OpId before, const ir::OpDef& def, std::vector<ValueId> operands,
                             std::vector<ir::Attr> attrs, OpId like) {
  DIF_CHECK(is_alive(before));
  std::vector<ir::TensorType> types;
  for (const ValueId operand : operands) types.push_back(type(operand));
  const ir::OpView view(def, std::move(types), attrs);
  Status status = ir::verify_op(view);
  ir::Types results;
  if (status) results = def.infer(view);
  for (const ir::TensorType& type : results)
    if (status) status = ir::verify_type(type, def.name);
  if (!status)
    return fail(ErrorCode::kInternal, "a rewrite made an operation that is not legal: {}",
                status.error().message);

  const auto id = static_cast<OpId>(program_.ops.size());
  const bool constant =
      !operands.empty() && std::ranges::all_of(operands, [&](ValueId v) { return is_constant(v); });
  ir::Op op{&def, std::move(operands), {}, std::move(attrs)};
  for (ir::TensorType& type : results) {
    const auto value = static_cast<ValueId>(program_.values.size());
    op.results.push_back(value);
    program_.values.push_back({std::move(type), ir::ValueKind::kResult, {}, id});
    add_value(value);
    constant_[value] = constant;
  }
  for (const ValueId operand : op.operands) readers_[operand].push_back(id);
  const ValueId first = op.results.front();
  program_.ops.push_back(std::move(op));
  auto& modules = program_.provenance.op_modules;
  if (!modules.empty()) modules.push_back(modules.at(like == ir::kNoId ? before : like));
  positions_.push_back(order_.insert(positions_.at(before), id));
  alive_.push_back(true);
  ++changes_;
  return first;
}

void Editor::replace(ValueId from, ValueId to) {
  DIF_CHECK(from != to && type(from) == type(to));
  for (const OpId reader : readers_[from]) {
    std::ranges::replace(program_.ops[reader].operands, from, to);
    readers_[to].push_back(reader);
  }
  readers_[from].clear();
  for (ir::Output& output : program_.outputs)
    if (output.value == from) output.value = to;
  n_outputs_[to] += std::exchange(n_outputs_[from], 0U);
  for (ir::Provenance::Boundary& boundary : program_.provenance.boundaries)
    if (boundary.value == from) boundary.value = to;
  ++changes_;
  if (producer(from) != nullptr) remove_if_dead(program_.values[from].producer);
}

void Editor::forget_reader(ValueId value, OpId reader) {
  auto& readers = readers_[value];
  readers.erase(std::ranges::find(readers, reader));
}

void Editor::remove_if_dead(OpId id) {
  std::vector<OpId> candidates = {id};
  while (!candidates.empty()) {
    const OpId candidate = candidates.back();
    candidates.pop_back();
    if (!alive_[candidate]) continue;
    const ir::Op& op = program_.ops[candidate];
    const auto unread = [&](ValueId value) { return readers_[value].empty() && !is_output(value); };
    if (!std::ranges::all_of(op.results, unread)) continue;
    alive_[candidate] = false;
    order_.erase(positions_[candidate]);
    ++changes_;
    for (const ValueId operand : op.operands) {
      forget_reader(operand, candidate);
      if (producer(operand) != nullptr) candidates.push_back(program_.values[operand].producer);
    }
  }
}

void Editor::remove_dead() {
  const std::vector<OpId> all = order();
  for (auto id = all.rbegin(); id != all.rend(); ++id) remove_if_dead(*id);
}

std::vector<std::string> Editor::drop_constants() {
  std::vector<std::string> names;
  std::erase_if(program_.constants, [&](ValueId id) {
    const bool unread = readers_[id].empty() && !is_output(id);
    if (unread) names.push_back(program_.values[id].name);
    return unread;
  });
  changes_ += names.size();
  return names;
}

void Editor::finish() {
  if (changes_ == 0) return;

  ir::Program next;
  next.name = std::move(program_.name);
  next.provenance.creator = std::move(program_.provenance.creator);
  std::vector<ValueId> renamed(program_.values.size(), ir::kNoId);
  const auto keep = [&](ValueId id) {
    renamed[id] = static_cast<ValueId>(next.values.size());
    next.values.push_back(std::move(program_.values[id]));
    return renamed[id];
  };
  for (const ValueId id : program_.inputs) next.inputs.push_back(keep(id));
  for (const ValueId id : program_.constants) next.constants.push_back(keep(id));
  const auto& modules = program_.provenance.op_modules;
  for (const OpId id : order_) {
    ir::Op op = std::move(program_.ops[id]);
    for (ValueId& operand : op.operands) operand = renamed[operand];
    for (ValueId& result : op.results) {
      result = keep(result);
      next.values[result].producer = static_cast<OpId>(next.ops.size());
    }
    next.ops.push_back(std::move(op));
    if (!modules.empty()) next.provenance.op_modules.push_back(modules[id]);
  }
  for (const ir::Output& output : program_.outputs)
    next.outputs.push_back({output.name, renamed[output.value]});
  for (const auto& boundary : program_.provenance.boundaries)
    if (renamed[boundary.value] != ir::kNoId)
      next.provenance.boundaries.push_back({boundary.name, renamed[boundary.value]});
  program_ = std::move(next);
}

}  // namespace dif::opt
