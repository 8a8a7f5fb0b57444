#include "ir/verifier.h"

#include <algorithm>
#include <set>
#include <string>

#include "io/printable.h"

namespace dif::ir {

namespace {

Status verify_arity(const OpView& op) {
  const auto& operands = op.def().operands;
  std::size_t required = 0;
  bool variadic = false;
  for (const OperandDef& operand : operands) {
    if (operand.arity == Arity::kVariadic) variadic = true;
    if (operand.arity != Arity::kOptional) ++required;
  }
  if (op.n_ins() < required)
    return invalid_input("{}: {} operands, at least {} are needed", op.def().name, op.n_ins(), required);
  if (!variadic && op.n_ins() > operands.size())
    return invalid_input("{}: {} operands, at most {} are allowed", op.def().name, op.n_ins(),
                         operands.size());
  return ok();
}

Status verify_attrs(const OpView& op) {
  const auto& defs = op.def().attrs;
  if (op.attrs().size() != defs.size())
    return invalid_input("{}: {} attributes, {} expected", op.def().name, op.attrs().size(), defs.size());
  for (std::size_t i = 0; i < defs.size(); ++i)
    if (op.attrs()[i].index() != defs[i].fallback.index())
      return invalid_input("{}: attribute {} has another type", op.def().name, defs[i].name);
  return ok();
}

/// Names stand in messages, JSON documents and C strings.
Status verify_name(std::string_view name, std::string_view what) {
  constexpr std::size_t kMaxBytes = 1024;
  if (name.size() > kMaxBytes)
    return invalid_input("the name of {} has {} bytes, at most {} are allowed", what, name.size(), kMaxBytes);
  const bool control =
      std::ranges::any_of(name, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
  if (control || io::first_invalid_utf8(name) != name.size())
    return invalid_input("the name of {} is not printable UTF-8: {}", what, io::printable(name));
  return ok();
}

/// Inputs and constants: listed once, named, without a producer.
Status verify_named(const Program& program, const std::vector<ValueId>& ids, ValueKind kind,
                    std::string_view what, std::set<std::string>& names) {
  std::set<ValueId> seen;
  for (const ValueId id : ids) {
    if (id >= program.values.size())
      return invalid_input("{} list names value %{}, which does not exist", what, id);
    const ValueInfo& value = program.values[id];
    if (value.kind != kind || value.producer != kNoId || !seen.insert(id).second)
      return invalid_input("value %{} is not one {}", id, what);
    if (value.name.empty()) return invalid_input("{} %{} has no name", what, id);
    DIF_TRY(verify_name(value.name, fmt::format("{} %{}", what, id)));
    if (!names.insert(value.name).second) return invalid_input("two {}s are named {}", what, value.name);
  }
  for (const ValueInfo& value : program.values)
    if (value.kind == kind && !seen.contains(static_cast<ValueId>(&value - program.values.data())))
      return invalid_input("{} {} is missing from the {} list", what, io::printable(value.name), what);
  return ok();
}

Status verify_one(const Program& program, OpId id, std::vector<bool>& defined) {
  const Op& op = program.ops[id];
  if (op.def == nullptr) return invalid_input("operation {} has no definition", id);
  for (const ValueId operand : op.operands)
    if (operand >= program.values.size() || !defined[operand])
      return invalid_input("operation {} ({}) reads %{} before it is defined", id, op.def->name, operand);
  for (const ValueId result : op.results)
    if (result >= program.values.size() || program.values[result].producer != id ||
        program.values[result].kind != ValueKind::kResult || !program.values[result].name.empty() ||
        defined[result])
      return invalid_input("operation {} ({}) does not own its result %{}", id, op.def->name, result);
  const OpView view = program.view(id);
  if (Status status = verify_op(view); !status)
    return with_context(std::move(status.error()), "operation {}", id);
  const Types inferred = op.def->infer(view);
  if (inferred.size() != op.results.size())
    return invalid_input("operation {} ({}) has {} results, {} expected", id, op.def->name, op.results.size(),
                         inferred.size());
  for (std::size_t i = 0; i < inferred.size(); ++i) {
    if (inferred[i] != program.type(op.results[i]))
      return invalid_input("operation {} ({}): result %{} is stored as {}, inferred {}", id, op.def->name,
                           op.results[i], program.type(op.results[i]), inferred[i]);
    defined[op.results[i]] = true;
  }
  return ok();
}

}  // namespace

Status verify_type(const TensorType& type, std::string_view what) {
  constexpr std::int64_t kMaxDim = std::int64_t{1} << 40;
  for (const std::int64_t dim : type.shape.dims())
    if (dim < 0 || dim > kMaxDim) return invalid_input("{} has the impossible type {}", what, type);
  const auto count = type.shape.checked_numel();
  if (!count || *count > INT64_MAX / 8) return invalid_input("{} has the impossible type {}", what, type);
  return ok();
}

Status verify_op(const OpView& op) {
  DIF_TRY(verify_arity(op));
  DIF_TRY(verify_attrs(op));
  return op.def().verify(op);
}

Status verify(const Program& program) {
  DIF_TRY(verify_name(program.name, "the program"));
  for (std::size_t id = 0; id < program.values.size(); ++id)
    DIF_TRY(verify_type(program.values[id].type, fmt::format("value %{}", id)));
  std::set<std::string> input_names, constant_names, output_names;
  DIF_TRY(verify_named(program, program.inputs, ValueKind::kInput, "input", input_names));
  DIF_TRY(verify_named(program, program.constants, ValueKind::kConstant, "constant", constant_names));
  std::vector<bool> defined(program.values.size());
  for (const ValueId id : program.inputs) defined[id] = true;
  for (const ValueId id : program.constants) defined[id] = true;
  for (OpId id = 0; id < program.ops.size(); ++id) DIF_TRY(verify_one(program, id, defined));
  for (std::size_t id = 0; id < defined.size(); ++id)
    if (!defined[id]) return invalid_input("value %{} is never defined", id);
  if (program.outputs.empty()) return invalid_input("the program has no outputs");
  for (const Output& output : program.outputs) {
    if (output.value >= program.values.size())
      return invalid_input("output {} names value %{}, which does not exist", io::printable(output.name),
                           output.value);
    DIF_TRY(verify_name(output.name, fmt::format("an output (%{})", output.value)));
    if (output.name.empty() || !output_names.insert(output.name).second)
      return invalid_input("output names must be present and unique, found \"{}\" again", output.name);
  }
  return ok();
}

}  // namespace dif::ir
