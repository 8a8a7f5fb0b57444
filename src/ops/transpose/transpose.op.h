#pragma once

#include <cstdint>
#include <vector>

#include "ir/builder.h"
#include "ir/op_def.h"

namespace dif::ops {

using ir::Builder;
using ir::Value;

extern const ir::OpDef kTranspose;

/// transpose(x) -> y       y's axis i is x's axis perm[i]; any dtype
///   C1 perm is a permutation of 0 .. rank(x)-1
Value transpose(Builder& b, Value x, std::vector<std::int64_t> perm);

}  // namespace dif::ops
