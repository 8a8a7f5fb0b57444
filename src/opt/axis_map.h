#pragma once

#include <optional>
#include <vector>

#include "ir/op_def.h"

namespace dif::opt {

/// How an operation's result depends on its operands along one axis: element i of that axis needs element i
/// of an axis of some operands, and the other operands as a whole.
struct AxisMap {
  /// Per operand: the axis that goes with the result's axis, or nothing when the operand is needed whole.
  std::vector<std::optional<int>> operand_axes;
};

/// The map of result axis `axis`; nothing when elements of the axis depend on each other's operands (a norm
/// over it, a softmax, the axis that a slice cuts). Pre: the operation is verified, axis < rank of the
/// result.
std::optional<AxisMap> axis_map(const ir::OpView& op, int axis);

}  // namespace dif::opt
