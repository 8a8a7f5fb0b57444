#pragma once

#include "dif/status.h"
#include "ir/program.h"

namespace dif::ir {

/// Checks everything that a program promises: ids in range and defined before use, kinds and names consistent
/// and unique, arity and attribute alternatives, each operation's labelled constraints, result types equal to
/// the inferred ones, sizes that fit 63 bits. Errors: InvalidInput naming the operation and the constraint.
Status verify(const Program& program);

/// Whether a value may have this type: dimensions within 0 .. 2^40 (so that shape rules may add and multiply
/// a few of them), less than 2^60 elements. `what` names the value in the error.
Status verify_type(const TensorType& type, std::string_view what);

/// The part of verify that concerns one operation: arity, attribute alternatives, constraints.
Status verify_op(const OpView& op);

}  // namespace dif::ir
