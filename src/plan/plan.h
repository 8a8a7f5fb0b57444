#pragma once

#include <cstdint>
#include <vector>

#include "ir/program.h"
#include "plan/fusion.h"
#include "plan/in_place.h"
#include "plan/lifetimes.h"

namespace dif::plan {

/// Where a value lives during a run.
enum class Storage : std::uint8_t {
  kInput,     ///< bound by the caller of a run
  kConstant,  ///< bound at prepare
  kFolded,    ///< computed once at prepare from constants alone
  kArena,     ///< at `offset` in the arena of the context
  kRegister,  ///< inside its group only, never in memory
};

struct Placement {
  Storage storage = Storage::kArena;
  ir::ValueId root =
      ir::kNoId;             ///< the value whose bytes these are: itself, or what a chain of views looks at
  std::uint64_t offset = 0;  ///< of an arena value
  Lifetime life;             ///< of the root, when it is in the arena
  ir::ValueId host = ir::kNoId;  ///< of a root that lies inside another one; `offset` is its own
  Pitch pitch;                   ///< how its elements lie there
};

/// One operation, or all operations of a group. Nothing runs in the step of a view, of a folded operation or
/// of one that is in place.
struct Step {
  ir::OpId op = ir::kNoId;          ///< the first of a group
  std::uint32_t group = ir::kNoId;  ///< index into Plan::groups
};

/// The order of execution and the memory layout of one program. Without groups the steps are the operations
/// in program order.
struct Plan {
  std::vector<Step> steps;
  std::vector<Group> groups;
  std::vector<ir::OpId> in_place;  ///< do not run: their values lie inside others (in_place.h)
  std::vector<Placement> values;   ///< per value
  std::vector<bool> folded;        ///< per operation: runs at prepare, never in a run
  std::uint64_t arena_bytes = 0;
  std::uint64_t unshared_bytes = 0;  ///< what the arena would be if no two values shared bytes
};

/// Changes with every change of what make_plan, form_groups or choose_in_place give for one program.
inline constexpr char kPlannerName[] = "dif 2";

/// Every arena offset is a multiple of this.
inline constexpr std::uint64_t kArenaAlignment = 64;

/// Plans a verified program: constant operands make an operation folded, views share the bytes of what they
/// look at, and values that never live at the same time share arena bytes. Outputs live until the end. Sizes
/// that 64 bits do not hold are 2^64 - 1 bytes, which no device has.
/// `groups` are those of form_groups, or some of them: what lives inside a group alone takes no memory.
/// `in_place` are those of choose_in_place: a value inside another one has no bytes of its own.
/// Pre: check_plan passes.
Plan make_plan(const ir::Program& program, std::vector<Group> groups = {},
               std::vector<ir::OpId> in_place = {});

/// Whether groups and operations in place that came from outside can be planned: the operations of groups
/// exist, run, have one result and are in one group each, what they read and write exists, no two groups need
/// each other's results, and those in place can be it. Errors: InvalidInput.
Status check_plan(const ir::Program& program, const std::vector<Group>& groups,
                  const std::vector<ir::OpId>& in_place = {});

}  // namespace dif::plan
