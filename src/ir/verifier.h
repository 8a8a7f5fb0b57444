#pragma once

#include "dif/status.h"
#include "ir/program.h"

namespace dif::ir {

/// Checks everything that a program promises: ids in range and defined before use, kinds and names consistent
/// and unique, arity and attribute alternatives, each operation's labelled constraints, result types equal to
/// the inferred ones, sizes that fit 63 bits. Errors: InvalidInput naming the operation and the constraint.
Status verify(const Program& program);

/// The part of verify that concerns one operation: arity, attribute alternatives, constraints.
Status verify_op(const OpView& op);

}  // namespace dif::ir
