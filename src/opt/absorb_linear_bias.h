#pragma once

#include "dif/status.h"
#include "ir/program.h"

namespace dif::opt {

/// A bias that a linear took over.
struct AbsorbedBias {
  ir::OpId linear = ir::kNoId;
  ir::OpId add = ir::kNoId;  ///< is a view of the linear's result now
  ir::ValueId bias = ir::kNoId;
};

/// linear(x, w), whose result an add of a vector of its columns alone reads, becomes linear(x, w, bias).
/// Every operation and value keeps its number: the add becomes a reshape to the shape that there is. Not
/// exact: the sum is no longer rounded before the bias is added. Errors: InvalidInput, saying why not this
/// operation.
Result<AbsorbedBias> absorb_linear_bias(ir::Program& program, ir::OpId op);

}  // namespace dif::opt
