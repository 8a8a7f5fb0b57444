#pragma once

#include <string>
#include <string_view>

#include "dif/dtype.h"
#include "frontends/blocks/weight_lookup.h"
#include "ir/builder.h"

namespace dif::frontends {

/// A module of the reference framework while its operations are emitted. Its path names its weights
/// ("transformer_blocks.0.attn.to_q.weight"), the operations' provenance and the recorded results
/// ("transformer.transformer_blocks.0.attn"). A child must end before its parent, and only the innermost one
/// may emit.
class Module {
 public:
  /// The model part itself: `component` stands in provenance only. Arithmetic is in `dtype`.
  Module(ir::Builder& builder, WeightLookup& weights, std::string_view component, DType dtype);
  /// The part `name` of `parent` ("attn", "transformer_blocks.0").
  Module(const Module& parent, std::string_view name);

  ir::Builder& b() const { return builder_; }
  DType dtype() const { return dtype_; }
  /// The weight `name` of this module in the module's dtype.
  ir::Value weight(std::string_view name, const Shape& shape) const;
  /// The same in the dtype of the checkpoint.
  ir::Value stored_weight(std::string_view name, const Shape& shape) const;
  /// Records `value` as this module's result, or as one of several ("out0").
  ir::Value result(ir::Value value, std::string_view which = {}) const;

 private:
  std::string full_name(std::string_view name) const;

  ir::Builder& builder_;
  WeightLookup& weights_;
  std::string path_;
  DType dtype_;
  ir::Builder::Scope scope_;
};

}  // namespace dif::frontends
