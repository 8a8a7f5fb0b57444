#pragma once

#include <cstdint>

#include "ir/builder.h"
#include "ir/op_def.h"

namespace dif::ops {

using ir::Builder;
using ir::Value;

extern const ir::OpDef kSlice;

/// slice(x) -> y       elements start .. end-1 of one axis; any dtype
///   C1 0 <= axis < rank(x)
///   C2 0 <= start <= end <= dim(x, axis)
/// The builder accepts a negative axis and stores the non-negative one.
Value slice(Builder& b, Value x, int axis, std::int64_t start, std::int64_t end);

}  // namespace dif::ops
