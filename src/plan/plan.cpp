#include "plan/plan.h"

#include <algorithm>
#include <queue>

#include "base/check.h"
#include "base/checked_math.h"

namespace dif::plan {

namespace {

struct Block {
  ir::ValueId value = ir::kNoId;
  Lifetime life;
  std::uint64_t bytes = 0;
  std::uint64_t offset = 0;
};

bool meet(const Lifetime& a, const Lifetime& b) {
  return a.first <= b.last && b.first <= a.last;
}

/// The lowest offset at which `block` fits between the placed blocks that it meets in time.
std::uint64_t lowest_gap(const Block& block, const std::vector<Block>& placed_by_offset) {
  std::uint64_t offset = 0;
  for (const Block& other : placed_by_offset) {
    if (!meet(block.life, other.life)) continue;
    if (saturating_add(offset, block.bytes) <= other.offset) break;
    offset = std::max(offset, saturating_add(other.offset, other.bytes));
  }
  return offset;
}

/// Largest first: big blocks get the bottom of the arena, small ones fill the gaps that they leave.
void place(std::vector<Block> blocks, Plan& plan) {
  std::ranges::stable_sort(blocks, [](const Block& a, const Block& b) { return a.bytes > b.bytes; });
  std::vector<Block> placed;
  for (Block& block : blocks) {
    block.offset = lowest_gap(block, placed);
    plan.values[block.value].offset = block.offset;
    plan.arena_bytes = std::max(plan.arena_bytes, saturating_add(block.offset, block.bytes));
    plan.unshared_bytes = saturating_add(plan.unshared_bytes, block.bytes);
    const auto position = std::ranges::upper_bound(placed, block.offset, {}, &Block::offset);
    placed.insert(position, block);
  }
}

Storage storage_of(const ir::Program& program, ir::ValueId root, const std::vector<bool>& constant) {
  switch (program.values[root].kind) {
    case ir::ValueKind::kInput:
      return Storage::kInput;
    case ir::ValueKind::kConstant:
      return Storage::kConstant;
    case ir::ValueKind::kResult:
      break;
  }
  return constant[root] ? Storage::kFolded : Storage::kArena;
}

/// The steps in an order in which each one follows those that it reads from: as near to program order as the
/// groups allow, a group where its last operation stood.
class Scheduler {
 public:
  Scheduler(const ir::Program& program, const std::vector<ir::ValueId>& roots,
            const std::vector<Group>& groups) {
    std::vector<std::uint32_t> unit_of(program.ops.size(), ir::kNoId);
    for (std::uint32_t group = 0; group < groups.size(); ++group) {
      for (const ir::OpId op : groups[group].ops) unit_of[op] = group;
      units_.push_back({{groups[group].ops.front(), group}, groups[group].ops.back()});
    }
    for (ir::OpId op = 0; op < program.ops.size(); ++op) {
      if (unit_of[op] != ir::kNoId) continue;
      unit_of[op] = static_cast<std::uint32_t>(units_.size());
      units_.push_back({{op, ir::kNoId}, op});
    }
    for (ir::OpId op = 0; op < program.ops.size(); ++op)
      for (const ir::ValueId operand : program.ops[op].operands) {
        // Who reads a view waits for what it looks at: the view may look into the reader's own group.
        const ir::OpId producer = program.values[roots[operand]].producer;
        if (producer == ir::kNoId || unit_of[producer] == unit_of[op]) continue;
        units_[unit_of[producer]].readers.push_back(unit_of[op]);
        ++units_[unit_of[op]].unmet;
      }
  }

  /// Fewer than there are when groups need each other's results.
  std::vector<Step> run() {
    using Entry = std::pair<ir::OpId, std::uint32_t>;  // the last operation of a unit, and the unit
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
    for (std::uint32_t unit = 0; unit < units_.size(); ++unit)
      if (units_[unit].unmet == 0) ready.emplace(units_[unit].last, unit);
    std::vector<Step> steps;
    while (!ready.empty()) {
      const std::uint32_t unit = ready.top().second;
      ready.pop();
      steps.push_back(units_[unit].step);
      for (const std::uint32_t reader : units_[unit].readers)
        if (--units_[reader].unmet == 0) ready.emplace(units_[reader].last, reader);
    }
    return steps;
  }

  std::size_t n_units() const { return units_.size(); }

 private:
  struct Unit {
    Step step;
    ir::OpId last = 0;
    std::vector<std::uint32_t> readers = {};  // one entry for each operand
    std::size_t unmet = 0;
  };
  std::vector<Unit> units_;
};

/// The step in which each operation runs.
std::vector<std::uint32_t> steps_of(const ir::Program& program, const Plan& plan) {
  std::vector<std::uint32_t> step_of(program.ops.size());
  for (std::uint32_t i = 0; i < plan.steps.size(); ++i) {
    const Step& step = plan.steps[i];
    if (step.group == ir::kNoId) step_of[step.op] = i;
    if (step.group != ir::kNoId)
      for (const ir::OpId op : plan.groups[step.group].ops) step_of[op] = i;
  }
  return step_of;
}

/// Per value: whether it is a result of a group that the group does not write.
std::vector<bool> register_values(const ir::Program& program, const std::vector<Group>& groups) {
  std::vector<bool> stays(program.values.size());
  for (const Group& group : groups) {
    for (const ir::OpId op : group.ops) stays[program.ops[op].results.front()] = true;
    for (const ir::ValueId output : group.outputs) stays[output] = false;
  }
  return stays;
}

}  // namespace

Plan make_plan(const ir::Program& program, std::vector<Group> groups, std::vector<ir::OpId> in_place) {
  const auto roots = view_roots(program);
  const auto constant = constant_values(program);

  Plan plan;
  plan.groups = std::move(groups);
  plan.in_place = std::move(in_place);
  const auto inside = lie_inside(program, plan.in_place);
  DIF_CHECK(inside);
  Scheduler scheduler(program, roots, plan.groups);
  plan.steps = scheduler.run();
  DIF_CHECK(plan.steps.size() == scheduler.n_units());
  plan.values.resize(program.values.size());
  plan.folded.resize(program.ops.size());
  for (ir::OpId id = 0; id < program.ops.size(); ++id)
    plan.folded[id] = constant[program.ops[id].results.front()];

  auto lives =
      lifetimes(program, roots, steps_of(program, plan), static_cast<std::uint32_t>(plan.steps.size()));
  const std::vector<bool> stays = register_values(program, plan.groups);
  std::vector<const Inside*> places(program.values.size());
  for (const Inside& part : *inside) {
    DIF_CHECK(!stays[part.value] && !stays[part.host]);
    places[part.value] = &part;
    Lifetime& life = lives[part.host];
    life = {std::min(life.first, lives[part.value].first), std::max(life.last, lives[part.value].last)};
  }
  std::vector<Block> blocks;
  for (ir::ValueId id = 0; id < program.values.size(); ++id) {
    const ir::ValueId root = roots[id];
    const Storage storage = stays[root] ? Storage::kRegister : storage_of(program, root, constant);
    plan.values[id] = {storage, root, 0, lives[root]};
    if (root != id || storage != Storage::kArena || places[id] != nullptr) continue;
    blocks.push_back({id, lives[id], align_up(program.type(id).bytes(), kArenaAlignment), 0});
  }
  place(std::move(blocks), plan);
  for (const Inside& part : *inside) {
    Placement& placement = plan.values[part.value];
    placement.host = part.host;
    placement.pitch = part.pitch;
    placement.offset = plan.values[part.host].offset + part.first_byte;
  }
  for (Placement& placement : plan.values) {
    placement.offset = plan.values[placement.root].offset;
    placement.pitch = plan.values[placement.root].pitch;
  }
  return plan;
}

Status check_plan(const ir::Program& program, const std::vector<Group>& groups,
                  const std::vector<ir::OpId>& in_place) {
  const auto constant = constant_values(program);
  std::vector<bool> taken(program.ops.size());
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (groups[i].ops.empty()) return invalid_input("group {} without operations", i);
    for (const ir::OpId id : groups[i].ops) {
      if (id >= program.ops.size() || taken[id])
        return invalid_input("group {} with operation {}, which another one has or nobody", i, id);
      taken[id] = true;
      const ir::Op& op = program.ops[id];
      if (op.def->is_view || op.results.size() != 1 || constant[op.results.front()])
        return invalid_input("group {} with operation {} ({}), which does not run", i, id, op.def->name);
    }
    for (const auto* list : {&groups[i].inputs, &groups[i].outputs})
      for (const ir::ValueId value : *list)
        if (value >= program.values.size()) return invalid_input("group {} with value {}", i, value);
  }
  DIF_ASSIGN(const std::vector<Inside> inside, lie_inside(program, in_place));
  const std::vector<bool> stays = register_values(program, groups);
  for (const Inside& part : inside)
    if (stays[part.value] || stays[part.host])
      return invalid_input("value %{} inside %{}, of which one is never in memory", part.value, part.host);
  for (const ir::OpId id : in_place)
    if (taken[id]) return invalid_input("operation {} in a group and in place", id);
  Scheduler scheduler(program, view_roots(program), groups);
  const std::size_t n_steps = scheduler.run().size();
  return n_steps == scheduler.n_units() ? ok() : invalid_input("groups that need each other's results");
}

}  // namespace dif::plan
