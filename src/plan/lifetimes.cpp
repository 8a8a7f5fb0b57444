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

std::vector<Lifetime> lifetimes(const ir::Program& program, const std::vector<ir::ValueId>& roots,
                                const std::vector<std::uint32_t>& step_of, std::uint32_t n_steps) {
  std::vector<Lifetime> lifetimes(program.values.size());
  for (ir::OpId id = 0; id < program.ops.size(); ++id)
    for (const ir::ValueId result : program.ops[id].results)
      if (roots[result] == result) lifetimes[result] = {step_of[id], step_of[id]};
  for (ir::OpId id = 0; id < program.ops.size(); ++id)
    for (const ir::ValueId operand : program.ops[id].operands) {
      std::uint32_t& last = lifetimes[roots[operand]].last;
      last = std::max(last, step_of[id]);
    }
  for (const ir::Output& output : program.outputs) lifetimes[roots[output.value]].last = n_steps;
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
