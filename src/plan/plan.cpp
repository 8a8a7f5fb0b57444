#include "plan/plan.h"

#include <algorithm>

#include "base/checked_math.h"
#include "plan/lifetimes.h"

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

}  // namespace

Plan make_plan(const ir::Program& program) {
  const auto roots = view_roots(program);
  const auto lives = lifetimes(program, roots);
  const auto constant = constant_values(program);

  Plan plan;
  plan.values.resize(program.values.size());
  plan.folded.resize(program.ops.size());
  for (ir::OpId id = 0; id < program.ops.size(); ++id)
    plan.folded[id] = constant[program.ops[id].results.front()];

  std::vector<Block> blocks;
  for (ir::ValueId id = 0; id < program.values.size(); ++id) {
    plan.values[id] = {storage_of(program, roots[id], constant), roots[id], 0};
    if (roots[id] != id || plan.values[id].storage != Storage::kArena) continue;
    blocks.push_back({id, lives[id], align_up(program.type(id).bytes(), kArenaAlignment), 0});
  }
  place(std::move(blocks), plan);
  for (Placement& placement : plan.values) placement.offset = plan.values[placement.root].offset;
  return plan;
}

}  // namespace dif::plan
