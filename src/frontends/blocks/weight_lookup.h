#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "dif/dtype.h"
#include "dif/status.h"
#include "frontends/blocks/weight_source.h"
#include "frontends/constant_set.h"
#include "ir/builder.h"

namespace dif::frontends {

/// Declares the constants of one program by their checkpoint names, as the graph code asks for them, and
/// keeps track of what does not fit. A problem never stops the graph code: the constant is declared as
/// wanted, and check() reports all problems together. Builder, constants and source outlive it.
class WeightLookup {
 public:
  WeightLookup(ir::Builder& builder, ConstantSet& constants, const WeightSource& source);

  /// The tensor that the reference framework calls `name`, in the dtype in which it is stored (f32, bf16 or
  /// f16). Where the checkpoint holds it fused, reordered or as a 1x1 convolution, operations on constants
  /// restore it (folded at prepare).
  ir::Value stored(std::string_view name, const Shape& shape);
  /// stored() cast to `dtype`.
  ir::Value get(std::string_view name, const Shape& shape, DType dtype);

  /// Whether everything asked for is there in a fitting shape and dtype, and nothing else is, except what
  /// `may_be_unused` allows. Errors: InvalidInput, one message with all missing, unexpected and unfit tensors
  /// (up to 10 of a kind and the count).
  Status check(const std::function<bool(std::string_view)>& may_be_unused) const;

 private:
  ir::Value declare(const std::string& name, const Shape& shape);

  ir::Builder& builder_;
  ConstantSet& constants_;
  const WeightSource& source_;
  std::unordered_set<std::string> used_;
  std::vector<std::string> missing_, wrong_shape_, wrong_dtype_;
};

}  // namespace dif::frontends
