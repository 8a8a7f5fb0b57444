#include "frontends/blocks/module.h"

#include <fmt/format.h>

namespace dif::frontends {

Module::Module(ir::Builder& builder, WeightLookup& weights, std::string_view component, DType dtype)
    : builder_(builder), weights_(weights), dtype_(dtype), scope_(builder, component) {}

Module::Module(const Module& parent, std::string_view name)
    : builder_(parent.builder_),
      weights_(parent.weights_),
      path_(parent.full_name(name)),
      dtype_(parent.dtype_),
      scope_(parent.builder_, name) {}

ir::Value Module::weight(std::string_view name, const Shape& shape) const {
  return weights_.get(full_name(name), shape, dtype_);
}

ir::Value Module::stored_weight(std::string_view name, const Shape& shape) const {
  return weights_.stored(full_name(name), shape);
}

ir::Value Module::result(ir::Value value, std::string_view which) const {
  builder_.boundary(which, value);
  return value;
}

std::string Module::full_name(std::string_view name) const {
  return path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name);
}

}  // namespace dif::frontends
