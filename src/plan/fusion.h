#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "ir/program.h"

namespace dif::plan {

/// Operations that one kernel executes, row by row: row r of every result depends on row r of the results
/// inside the group, and on what the group reads from memory. Rounding points stay those of the operations,
/// so a group gives the bits of its operations. Views between them are implied: the elements of a row and
/// their order are the same on both sides of such a view.
struct Group {
  std::vector<ir::OpId> ops;         ///< in the order of execution; two or more, none of them a view
  std::int64_t rows = 0;             ///< a row of a value is its elements / rows, one after the other
  std::vector<ir::ValueId> inputs;   ///< roots that are read from memory, in the order of their first use
  std::vector<ir::ValueId> outputs;  ///< results that are written to memory, in the order of ops
};

/// Why `op`, which reads a result of `producer`, is in no group with it.
struct Refusal {
  ir::OpId op = ir::kNoId;
  ir::OpId producer = ir::kNoId;
  std::string reason;
};

struct Fusion {
  std::vector<Group> groups;      ///< in the order of their first operations
  std::vector<Refusal> refusals;  ///< in the order of op
};

/// What a backend can execute as a group.
struct FusionRules {
  /// Whether a group may hold the operation, or why not. Asked only for operations that have a RowRule. Null:
  /// no groups at all.
  Status (*accepts)(const ir::OpView& op) = nullptr;
  std::size_t max_operations = 64;  ///< of one group
  /// Whether an operation without a RowRule may come first in a group, or why not: a convolution or a norm
  /// over the image, with what is done to each element of its result. Null: none may.
  Status (*leads)(const ir::OpView& op) = nullptr;
  /// Operations that one kernel may execute together although not all of them work row by row (two products
  /// and the SwiGLU behind them): ascending sets without views that share nothing, and between whose
  /// operations no other has to run. Null: none.
  std::vector<std::vector<ir::OpId>> (*wholes)(const ir::Program& program) = nullptr;
};

/// The groups of what FusionRules::wholes found. The rows of one are those of its last operation's result.
std::vector<Group> whole_groups(const ir::Program& program, std::vector<std::vector<ir::OpId>> wholes);

/// Joins operations into groups that are as large as the rules allow: an operation joins the operations whose
/// results it reads row by row, unless their rows differ or an operation outside would have to run in
/// between. Folded operations, and those of `in_place` (in_place.h, ascending), are in no group. Those of
/// `wholes`, which are groups already, stay as they are, and are not among the results.
Fusion form_groups(const ir::Program& program, const FusionRules& rules,
                   const std::vector<ir::OpId>& in_place = {}, const std::vector<Group>& wholes = {});

/// One paragraph for each group:
///
///     group 0, 128 rows: 3 layer_norm, 4 mul, 5 add
///       reads %9 %2 %1
///       writes %12
///       ends at 6 linear: linear does not work row by row
std::string groups_text(const ir::Program& program, const Fusion& fusion);

}  // namespace dif::plan
