#pragma once

#include "ir/builder.h"
#include "ir/op_def.h"

namespace dif::ops {

using ir::Builder;
using ir::Value;

extern const ir::OpDef kReshape;

/// reshape(x) -> y       the same elements in row-major order under another shape (a view); any dtype
///   C1 numel(shape) == numel(x), rank <= 8, no negative dimension
Value reshape(Builder& b, Value x, const Shape& shape);

}  // namespace dif::ops
