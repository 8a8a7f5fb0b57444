#pragma once

#include <span>

#include "ir/builder.h"
#include "ir/op_def.h"

namespace dif::ops {

using ir::Builder;
using ir::Value;

extern const ir::OpDef kConcat;

/// concat(x...) -> y       the operands one after another along one axis; any dtype
///   C1 0 <= axis < rank
///   C2 all operands have one dtype and one rank
///   C3 the other dimensions agree
/// The builder accepts a negative axis and stores the non-negative one.
Value concat(Builder& b, std::span<const Value> xs, int axis);

}  // namespace dif::ops
