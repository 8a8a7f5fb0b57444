#include "opt/absorb_linear_bias.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "ops/add/add.op.h"
#include "ops/linear/linear.op.h"
#include "ops/reshape/reshape.op.h"

namespace dif::opt {

using ir::OpId;
using ir::ValueId;

namespace {

/// The one operation that reads the linear's result. Errors: InvalidInput.
Result<OpId> only_reader(const ir::Program& program, OpId linear) {
  const ValueId sum = program.ops[linear].results[0];
  std::vector<OpId> readers;
  for (OpId id = linear + 1; id < program.ops.size(); ++id)
    for (const ValueId operand : program.ops[id].operands)
      if (operand == sum) readers.push_back(id);
  for (const ir::Output& output : program.outputs)
    if (output.value == sum)
      return invalid_input("operation {} takes no bias: its result is output {}", linear, output.name);
  if (readers.empty()) return invalid_input("operation {} takes no bias: nothing reads its result", linear);
  if (readers.size() > 1)
    return invalid_input("operation {} takes no bias: its result is read {} times, by operations {} and {}",
                         linear, readers.size(), readers[0], readers[1]);
  if (program.ops[readers[0]].def != &ops::kAdd)
    return invalid_input("operation {} takes no bias: operation {} reads its result, which is {}, not add",
                         linear, readers[0], program.ops[readers[0]].def->name);
  return readers[0];
}

/// `value` under the shape [columns], where it is there under another one.
ValueId as_vector(const ir::Program& program, ValueId value, std::int64_t columns) {
  while (program.type(value).shape != Shape{columns}) {
    const OpId producer = program.values[value].producer;
    if (producer == ir::kNoId || program.ops[producer].def != &ops::kReshape ||
        program.type(value).numel() != columns)
      return ir::kNoId;
    value = program.ops[producer].operands[0];
  }
  return value;
}

/// Whether [..., columns] is columns and ones.
bool repeats_along_columns(const ir::TensorType& type, std::int64_t columns) {
  return type.rank() > 0 && type.dim(-1) == columns && type.numel() == columns;
}

Result<ValueId> bias_of(const ir::Program& program, OpId linear, OpId add) {
  const ValueId sum = program.ops[linear].results[0];
  const std::vector<ValueId>& operands = program.ops[add].operands;
  const ValueId added = operands[0] == sum ? operands[1] : operands[0];
  const std::int64_t columns = program.type(sum).dim(-1);
  const ValueId bias =
      repeats_along_columns(program.type(added), columns) ? as_vector(program, added, columns) : ir::kNoId;
  if (bias == ir::kNoId)
    return invalid_input(
        "operation {} takes no bias: operation {} adds {}, needed is a vector of its columns, [{}]", linear,
        add, program.type(added), columns);
  const OpId producer = program.values[bias].producer;
  if (producer != ir::kNoId && producer > linear)
    return invalid_input(
        "operation {} takes no bias: what operation {} adds is made after it, by operation {}", linear, add,
        producer);
  return bias;
}

}  // namespace

Result<AbsorbedBias> absorb_linear_bias(ir::Program& program, OpId op) {
  if (op >= program.ops.size())
    return invalid_input("program {} has {} operations, none with the number {}", program.name,
                         program.ops.size(), op);
  ir::Op& linear = program.ops[op];
  if (linear.def != &ops::kLinear)
    return invalid_input("operation {} is {}, not linear: it takes no bias", op, linear.def->name);
  if (linear.operands.size() > 2) return invalid_input("operation {} has a bias already", op);
  DIF_ASSIGN(const OpId reader, only_reader(program, op));
  DIF_ASSIGN(const ValueId bias, bias_of(program, op, reader));
  linear.operands.push_back(bias);
  ir::Op& add = program.ops[reader];
  const auto dims = program.type(add.results[0]).shape.dims();
  add.def = &ops::kReshape;
  add.operands = {linear.results[0]};
  add.attrs = {std::vector<std::int64_t>(dims.begin(), dims.end())};
  std::erase_if(program.provenance.boundaries, [&](const ir::Provenance::Boundary& boundary) {
    return boundary.value == linear.results[0];  // it has the bias now
  });
  return AbsorbedBias{op, reader, bias};
}

}  // namespace dif::opt
