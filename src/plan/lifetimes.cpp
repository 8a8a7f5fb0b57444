#include "plan/lifetimes.h"

#include <algorithm>
#include <numeric>

namespace dif::plan {

std::vector<ir::ValueId> view_roots(const ir::Program& program) {
  std::vector<ir::ValueId> roots(program.values.size());
  std::iota(roots.begin(), roots.end(), 0U);
  for (const ir::Op& op : program.ops)
    if (op.def->is_view) roots[op.results.front()] = roots[op.operands.front()];
  return roots;
}

std::vector<Lifetime> lifetimes(const ir::Program& program, const std::vector<ir::ValueId>& roots) {
  std::vector<Lifetime> lifetimes(program.values.size());
  for (ir::OpId id = 0; id < program.ops.size(); ++id) {
    const ir::Op& op = program.ops[id];
    for (const ir::ValueId result : op.results)
      if (roots[result] == result) lifetimes[result] = {id, id};
    for (const ir::ValueId operand : op.operands) lifetimes[roots[operand]].last = id;
  }
  const auto end = static_cast<ir::OpId>(program.ops.size());
  for (const ir::Output& output : program.outputs) lifetimes[roots[output.value]].last = end;
  return lifetimes;
}

std::vector<bool> constant_values(const ir::Program& program) {
  std::vector<bool> constant(program.values.size());
  for (const ir::ValueId id : program.constants) constant[id] = true;
  for (const ir::Op& op : program.ops) {
    const bool all = !op.operands.empty() &&
                     std::ranges::all_of(op.operands, [&](ir::ValueId operand) { return constant[operand]; });
    for (const ir::ValueId result : op.results) constant[result] = all;
  }
  return constant;
}

}  // namespace dif::plan
