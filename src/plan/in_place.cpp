#include "plan/in_place.h"

#include <algorithm>
#include <optional>

#include "base/checked_math.h"
#include "plan/lifetimes.h"
#include "plan/plan.h"

namespace dif::plan {

namespace {

using ir::OpId;
using ir::Program;
using ir::RowRule;
using ir::ValueId;

/// The part of a tensor's elements that has `count` of those along `axis`, from `start` on.
Inside part_of(const ir::TensorType& whole, std::int64_t axis, std::int64_t start, std::int64_t count) {
  std::int64_t outer = 1, inner = 1;
  for (int a = 0; a < whole.rank(); ++a)
    if (a != axis) (a < axis ? outer : inner) *= whole.dim(a);
  Inside part;
  part.first_byte = static_cast<std::uint64_t>(start * inner) * dtype_size(whole.dtype);
  if (outer != 1) part.pitch = {count * inner, whole.dim(static_cast<int>(axis)) * inner};
  return part;
}

class Chooser {
 public:
  explicit Chooser(const Program& program)
      : program_(program),
        roots_(view_roots(program)),
        constant_(constant_values(program)),
        is_output_(program.values.size()),
        inside_(program.values.size()),
        hosts_(program.values.size()),
        readers_(program.values.size()) {
    for (const ir::Output& output : program.outputs) is_output_[roots_[output.value]] = true;
    for (OpId id = 0; id < program.ops.size(); ++id)
      if (!program.ops[id].def->is_view)
        for (const ValueId operand : program.ops[id].operands) readers_[roots_[operand]].push_back(id);
  }

  /// Where the values of `id` lie when it does not run; nothing when it has to run.
  std::optional<std::vector<Inside>> parts(OpId id) const {
    const ir::Op& op = program_.ops[id];
    const RowRule rule = op.def->row_rule;
    if (rule != RowRule::kSlice && rule != RowRule::kConcat) return {};
    const ValueId result = op.results.front();
    if (constant_[result] || program_.type(result).numel() == 0) return {};
    const ir::OpView view = program_.view(id);
    const std::int64_t axis = view.i64("axis");
    std::vector<Inside> parts;
    if (rule == RowRule::kSlice) {
      parts.push_back(part_of(view.in(0), axis, view.i64("start"), view.out().dim(static_cast<int>(axis))));
      parts[0].value = result;
      parts[0].host = roots_[op.operands[0]];
      if (!fits(parts[0])) return {};
      return parts;
    }
    std::int64_t start = 0;
    for (std::size_t i = 0; i < op.operands.size(); ++i) {
      const std::int64_t count = view.in(i).dim(static_cast<int>(axis));
      Inside part = part_of(view.out(), axis, start, count);
      start += count;
      part.value = roots_[op.operands[i]];
      part.host = result;
      if (count == 0 || !fits(part) || std::ranges::find(parts, part.value, &Inside::value) != parts.end())
        return {};
      parts.push_back(part);
    }
    return parts;
  }

  /// Whether everybody who reads or writes the value, but `id`, can do so where it would lie.
  bool suits(const Inside& part, OpId id, const PitchRules& rules) const {
    if (part.pitch.dense()) return true;
    if (is_output_[part.value] || rules.reads == nullptr || rules.writes == nullptr) return false;
    const OpId producer = program_.values[part.value].producer;
    if (producer != id && !rules.writes(program_.view(producer), part.pitch)) return false;
    return std::ranges::all_of(readers_[part.value], [&](OpId reader) {
      if (reader == id) return true;
      const ir::Op& op = program_.ops[reader];
      const ir::OpView view = program_.view(reader);
      for (std::size_t i = 0; i < op.operands.size(); ++i)
        if (roots_[op.operands[i]] == part.value && !rules.reads(view, i, part.pitch)) return false;
      return true;
    });
  }

  void take(const std::vector<Inside>& parts) {
    for (const Inside& part : parts) {
      inside_[part.value] = true;
      hosts_[part.host] = true;
    }
  }

 private:
  bool in_arena(ValueId root) const {
    return program_.values[root].kind == ir::ValueKind::kResult && !constant_[root];
  }
  /// Nobody lies inside a value that lies inside another one.
  bool fits(const Inside& part) const {
    return in_arena(part.value) && in_arena(part.host) && !inside_[part.value] && !hosts_[part.value] &&
           !inside_[part.host] && part.first_byte % kArenaAlignment == 0 &&
           program_.ops[program_.values[part.value].producer].results.size() == 1;
  }

  const Program& program_;
  std::vector<ValueId> roots_;
  std::vector<bool> constant_, is_output_;  ///< per root
  std::vector<bool> inside_, hosts_;        ///< per root: what was taken
  std::vector<std::vector<OpId>> readers_;  ///< per root; views are none
};

}  // namespace

std::vector<OpId> choose_in_place(const Program& program, const PitchRules& rules) {
  Chooser chooser(program);
  std::vector<OpId> chosen;
  // Concatenations first: their operands are written anyway, a slice may have more than one reason to be one.
  for (const RowRule rule : {RowRule::kConcat, RowRule::kSlice})
    for (OpId id = 0; id < program.ops.size(); ++id) {
      if (program.ops[id].def->row_rule != rule) continue;
      const auto parts = chooser.parts(id);
      if (!parts ||
          !std::ranges::all_of(*parts, [&](const Inside& part) { return chooser.suits(part, id, rules); }))
        continue;
      chooser.take(*parts);
      chosen.push_back(id);
    }
  std::ranges::sort(chosen);
  return chosen;
}

Result<std::vector<Inside>> lie_inside(const Program& program, const std::vector<OpId>& ops) {
  Chooser chooser(program);
  std::vector<Inside> all;
  for (const OpId id : ops) {
    const auto parts = id < program.ops.size() ? chooser.parts(id) : std::nullopt;
    if (!parts) return invalid_input("operation {} without a run, which has to have one", id);
    chooser.take(*parts);
    all.insert(all.end(), parts->begin(), parts->end());
  }
  return all;
}

}  // namespace dif::plan
