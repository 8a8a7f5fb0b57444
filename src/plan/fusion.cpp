#include "plan/fusion.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>

#include "plan/lifetimes.h"

namespace dif::plan {

namespace {

using ir::kNoId;
using ir::OpId;
using ir::Program;
using ir::RowRule;
using ir::ValueId;

/// How many leading dimensions may count the rows: the others stay together in one row.
int most_leading(const ir::OpView& op) {
  return op.def().row_rule == RowRule::kHeads ? 2 : std::max(op.out().rank() - 1, 0);
}

/// The numbers of rows that suit an operation, ascending: products of its result's leading dimensions.
std::vector<std::int64_t> possible_rows(const ir::OpView& op) {
  std::vector<std::int64_t> rows = {1};
  for (int axis = 0; axis < most_leading(op); ++axis)
    if (op.out().dim(axis) != 1) rows.push_back(rows.back() * op.out().dim(axis));
  return rows;
}

/// Why an operation is in no group whatever its neighbours.
std::optional<std::string> why_never(const ir::OpView& op, const FusionRules& rules) {
  const RowRule rule = op.def().row_rule;
  const bool leads = rule == RowRule::kNone && rules.leads != nullptr;
  if (rule == RowRule::kNone && !leads) return fmt::format("{} does not work row by row", op.def().name);
  if (op.n_outs() != 1 || op.out().numel() == 0) return "it has no elements";
  if ((rule == RowRule::kSlice || rule == RowRule::kConcat) && op.i64("axis") != op.out().rank() - 1)
    return fmt::format("{} along axis {} mixes rows", op.def().name, op.i64("axis"));
  if (Status status = leads ? rules.leads(op) : rules.accepts(op); !status) return status.error().message;
  return std::nullopt;
}

/// Whether the operation reads operand i row by row, so that the operand may live inside its group.
bool reads_by_row(const ir::OpView& op, std::size_t operand) {
  switch (op.def().row_rule) {
    case RowRule::kElementwise:
      return op.in(operand).numel() == op.out().numel();
    case RowRule::kConcat:
      return true;
    case RowRule::kNone:
      return false;
    default:
      return operand == 0;
  }
}

/// A group that grows; at the end, those with one operation are none.
struct Unit {
  std::vector<OpId> ops;  ///< ascending
  std::vector<std::int64_t> rows;
  bool is_whole = false;  ///< it was a group before and takes nothing in
};

class Former {
 public:
  Former(const Program& program, const FusionRules& rules, const std::vector<OpId>& in_place,
         const std::vector<Group>& wholes)
      : program_(program),
        rules_(rules),
        in_place_(in_place),
        roots_(view_roots(program)),
        unit_of_(program.ops.size(), kNoId) {
    const std::vector<bool> constant = constant_values(program);
    for (OpId id = 0; id < program.ops.size(); ++id) {
      const ir::Op& op = program.ops[id];
      views_.push_back(program.view(id));
      runs_.push_back(!op.def->is_view && !constant[op.results.front()]);
    }
    readers_.resize(program.ops.size());
    for (OpId id = 0; id < program.ops.size(); ++id)
      if (runs_[id])
        for (const OpId producer : producers(id)) readers_[producer].push_back(id);
    for (const Group& whole : wholes) {
      for (const OpId id : whole.ops) unit_of_[id] = static_cast<std::uint32_t>(units_.size());
      units_.push_back({whole.ops, {whole.rows}, true});
    }
  }

  Fusion run() {
    for (OpId id = 0; id < program_.ops.size(); ++id)
      if (runs_[id] && !in_whole(id)) add(id);
    return finish();
  }

  Group make_group(const Unit& unit) const {
    Group group = {unit.ops, unit.rows.back(), {}, {}};
    const auto inside = [&](OpId op) { return op != kNoId && std::ranges::binary_search(unit.ops, op); };
    for (const OpId id : unit.ops) {
      for (const ValueId operand : program_.ops[id].operands) {
        const ValueId root = roots_[operand];
        if (inside(program_.values[root].producer) ||
            std::ranges::find(group.inputs, root) != group.inputs.end())
          continue;
        group.inputs.push_back(root);
      }
      const ValueId result = program_.ops[id].results.front();
      const bool read_outside = !std::ranges::all_of(readers_[id], inside);
      const bool is_output = std::ranges::any_of(
          program_.outputs, [&](const ir::Output& output) { return roots_[output.value] == result; });
      if (read_outside || is_output) group.outputs.push_back(result);
    }
    return group;
  }

 private:
  /// The operations whose results `id` reads and that are not folded, the latest first.
  std::vector<OpId> producers(OpId id) const {
    std::set<OpId, std::greater<>> found;
    for (const ValueId operand : program_.ops[id].operands)
      if (const OpId producer = program_.values[roots_[operand]].producer;
          producer != kNoId && runs_[producer])
        found.insert(producer);
    return {found.begin(), found.end()};
  }

  bool in_whole(OpId id) const { return unit_of_[id] != kNoId && units_[unit_of_[id]].is_whole; }

  void add(OpId id) {
    const std::optional<std::string> never = std::ranges::binary_search(in_place_, id)
                                                 ? "its values lie where they are needed"
                                                 : why_never(views_[id], rules_);
    if (!never) {
      unit_of_[id] = static_cast<std::uint32_t>(units_.size());
      units_.push_back({{id}, possible_rows(views_[id])});
    }
    for (const OpId producer : producers(id)) {
      if (unit_of_[producer] == kNoId || in_whole(producer)) continue;
      const std::optional<std::string> reason = never ? never : join(id, producer);
      if (reason) refusals_.push_back({id, producer, *reason});
    }
  }

  /// Puts the units of both operations together, or says why that cannot be.
  std::optional<std::string> join(OpId id, OpId producer) {
    const std::uint32_t into = unit_of_[producer], from = unit_of_[id];
    if (into == from) return std::nullopt;
    const Unit &a = units_[into], &b = units_[from];
    Unit both;
    std::ranges::merge(a.ops, b.ops, std::back_inserter(both.ops));
    std::ranges::set_intersection(a.rows, b.rows, std::back_inserter(both.rows));
    if (both.ops.size() > rules_.max_operations)
      return fmt::format("together they would be {} operations, at most {} are one group", both.ops.size(),
                         rules_.max_operations);
    if (both.rows.back() < std::min(a.rows.back(), b.rows.back()))
      return fmt::format("their rows differ: {} and {}", a.rows.back(), b.rows.back());
    if (auto reason = why_not_led(both)) return reason;
    if (auto reason = why_not_by_row(both)) return reason;
    if (const OpId between = operation_between(both); between != kNoId)
      return fmt::format("operation {} ({}) runs in between", between, program_.ops[between].def->name);
    for (const OpId op : b.ops) unit_of_[op] = into;
    units_[from] = {};
    units_[into] = std::move(both);
    return std::nullopt;
  }

  /// An operation without a row rule comes first, and what others of the unit do is done to its elements.
  std::optional<std::string> why_not_led(const Unit& unit) const {
    for (std::size_t i = 1; i < unit.ops.size(); ++i)
      if (views_[unit.ops[i]].def().row_rule == RowRule::kNone)
        return fmt::format("operation {} ({}) does not work row by row and is not the first", unit.ops[i],
                           program_.ops[unit.ops[i]].def->name);
    if (views_[unit.ops[0]].def().row_rule != RowRule::kNone) return std::nullopt;
    for (std::size_t i = 1; i < unit.ops.size(); ++i)
      if (views_[unit.ops[i]].def().row_rule != RowRule::kElementwise)
        return fmt::format("operation {} ({}) is not element by element behind {}", unit.ops[i],
                           program_.ops[unit.ops[i]].def->name, program_.ops[unit.ops[0]].def->name);
    return std::nullopt;
  }

  std::optional<std::string> why_not_by_row(const Unit& unit) const {
    for (const OpId id : unit.ops) {
      const ir::Op& op = program_.ops[id];
      for (std::size_t i = 0; i < op.operands.size(); ++i) {
        const OpId producer = program_.values[roots_[op.operands[i]]].producer;
        if (reads_by_row(views_[id], i) || !std::ranges::binary_search(unit.ops, producer)) continue;
        return fmt::format("operation {} ({}) does not read {} row by row", id, op.def->name,
                           program_.ops[producer].def->name);
      }
    }
    return std::nullopt;
  }

  /// An operation that reads from `unit`, perhaps through others, and that `unit` reads from; kNoId when
  /// there is none.
  OpId operation_between(const Unit& unit) const {
    std::vector<bool> seen(program_.ops.size());
    std::vector<OpId> left;  // operations outside that run after the unit
    const auto visit = [&](OpId id) {
      if (seen[id] || std::ranges::binary_search(unit.ops, id)) return;
      seen[id] = true;
      left.push_back(id);
    };
    for (const OpId id : unit.ops)
      for (const OpId reader : readers_[id]) visit(reader);
    while (!left.empty()) {
      const OpId id = left.back();
      left.pop_back();
      for (const OpId reader : readers_[id]) {
        if (std::ranges::binary_search(unit.ops, reader)) return id;
        visit(reader);
      }
      if (unit_of_[id] != kNoId)  // its whole group runs at once
        for (const OpId member : units_[unit_of_[id]].ops) visit(member);
    }
    return kNoId;
  }

  Fusion finish() {
    Fusion fusion;
    for (const Unit& unit : units_)
      if (unit.ops.size() > 1 && !unit.is_whole) fusion.groups.push_back(make_group(unit));
    std::ranges::sort(fusion.groups, {}, [](const Group& group) { return group.ops.front(); });
    fusion.refusals = std::move(refusals_);
    // A later operation may have brought together what an earlier one could not.
    std::erase_if(fusion.refusals, [&](const Refusal& refusal) {
      return unit_of_[refusal.op] != kNoId && unit_of_[refusal.op] == unit_of_[refusal.producer];
    });
    return fusion;
  }

  const Program& program_;
  const FusionRules& rules_;
  const std::vector<OpId>& in_place_;
  std::vector<ValueId> roots_;
  std::vector<ir::OpView> views_;
  std::vector<bool> runs_;                  ///< per operation: it is neither a view nor folded
  std::vector<std::vector<OpId>> readers_;  ///< per operation: those that read its result
  std::vector<std::uint32_t> unit_of_;      ///< per operation; kNoId for what is in no group
  std::vector<Unit> units_;
  std::vector<Refusal> refusals_;
};

std::string values_text(std::string_view what, const std::vector<ValueId>& values) {
  std::string text = fmt::format("  {}", what);
  for (const ValueId value : values) text += fmt::format(" %{}", value);
  return text + "\n";
}

}  // namespace

std::vector<Group> whole_groups(const Program& program, std::vector<std::vector<OpId>> wholes) {
  std::vector<Group> groups;
  if (wholes.empty()) return groups;
  const FusionRules no_rules;
  const std::vector<OpId> none_in_place;
  const Former former(program, no_rules, none_in_place, {});
  for (std::vector<OpId>& ops : wholes) {
    const ir::TensorType& result = program.type(program.ops[ops.back()].results.front());
    const std::int64_t rows = result.rank() == 0 ? 1 : result.numel() / result.dim(-1);
    groups.push_back(former.make_group({std::move(ops), {rows}, true}));
  }
  return groups;
}

Fusion form_groups(const Program& program, const FusionRules& rules, const std::vector<OpId>& in_place,
                   const std::vector<Group>& wholes) {
  if (rules.accepts == nullptr) return {};
  return Former(program, rules, in_place, wholes).run();
}

std::string groups_text(const Program& program, const Fusion& fusion) {
  std::string text;
  const auto name = [&](OpId id) { return fmt::format("{} {}", id, program.ops[id].def->name); };
  for (std::size_t i = 0; i < fusion.groups.size(); ++i) {
    const Group& group = fusion.groups[i];
    std::vector<std::string> names;
    for (const OpId op : group.ops) names.push_back(name(op));
    text += fmt::format("group {}, {} rows: {}\n", i, group.rows, fmt::join(names, ", "));
    text += values_text("reads", group.inputs) + values_text("writes", group.outputs);
    for (const Refusal& refusal : fusion.refusals)
      if (std::ranges::binary_search(group.ops, refusal.producer))
        text += fmt::format("  ends at {}: {}\n", name(refusal.op), refusal.reason);
  }
  return text;
}

}  // namespace dif::plan
