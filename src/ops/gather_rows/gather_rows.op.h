#pragma once

#include "ir/builder.h"
#include "ir/op_def.h"

namespace dif::ops {

using ir::Builder;
using ir::Value;

extern const ir::OpDef kGatherRows;

/// gather_rows(table [V, ...], ids [...]) -> y [ids..., ...]       y[i] = table[ids[i]]; any dtype of table
///   C1 rank(table) >= 1
///   C2 ids is i32
///   C3 rank(ids) + rank(table) - 1 <= 8
/// An id outside 0 .. V-1 stops the run with an InvalidInput error that names it.
Value gather_rows(Builder& b, Value table, Value ids);

}  // namespace dif::ops
