#include "frontends/blocks/layers.h"

#include <cmath>

#include "ops/add/add.op.h"
#include "ops/add_scalar/add_scalar.op.h"
#include "ops/conv2d/conv2d.op.h"
#include "ops/group_norm/group_norm.op.h"
#include "ops/layer_norm/layer_norm.op.h"
#include "ops/linear/linear.op.h"
#include "ops/mul/mul.op.h"
#include "ops/reshape/reshape.op.h"
#include "ops/rms_norm/rms_norm.op.h"
#include "ops/silu/silu.op.h"
#include "ops/slice/slice.op.h"

namespace dif::frontends {

Value linear(const Module& parent, std::string_view name, Value x, std::int64_t width, bool bias) {
  const Module module(parent, name);
  const Value w = module.weight("weight", {width, x.dim(-1)});
  std::optional<Value> added;
  if (bias) added = module.weight("bias", {width});
  return module.result(ops::linear(module.b(), x, w, added));
}

Value layer_norm(const Module& parent, std::string_view name, Value x, float eps) {
  const Module module(parent, name);
  return module.result(ops::layer_norm(module.b(), x, eps));
}

Value rms_norm(const Module& parent, std::string_view name, Value x, float eps) {
  const Module module(parent, name);
  return module.result(ops::rms_norm(module.b(), x, module.weight("weight", {x.dim(-1)}), eps));
}

Value rms_norm_rounding_twice(const Module& parent, std::string_view name, Value x, float eps) {
  const Module module(parent, name);
  const Value w = module.weight("weight", {x.dim(-1)});
  return module.result(ops::mul(module.b(), w, ops::rms_norm(module.b(), x, std::nullopt, eps)));
}

Value group_norm(const Module& parent, std::string_view name, Value x, std::int64_t groups, float eps) {
  const Module module(parent, name);
  const Value w = module.weight("weight", {x.dim(1)});
  const Value bias = module.weight("bias", {x.dim(1)});
  return module.result(ops::group_norm(module.b(), x, w, bias, groups, eps));
}

Value conv2d(const Module& parent, std::string_view name, Value x, std::int64_t channels,
             std::int64_t kernel) {
  const Module module(parent, name);
  const Value w = module.weight("weight", {channels, x.dim(1), kernel, kernel});
  const Value bias = module.weight("bias", {channels});
  const std::int64_t pad = kernel / 2;
  return module.result(ops::conv2d(module.b(), x, w, bias, {.pads = {pad, pad, pad, pad}}));
}

std::vector<Value> chunk(ir::Builder& b, Value x, int n) {
  const std::int64_t width = x.dim(-1) / n;
  std::vector<Value> parts;
  for (int i = 0; i < n; ++i) parts.push_back(ops::slice(b, x, -1, i * width, (i + 1) * width));
  return parts;
}

Value swiglu(ir::Builder& b, Value x) {
  const std::vector<Value> halves = chunk(b, x, 2);
  return ops::mul(b, ops::silu(b, halves[0]), halves[1]);
}

Value modulate(ir::Builder& b, Value x, Value shift, Value scale) {
  return ops::add(b, ops::mul(b, ops::add_scalar(b, scale, 1.0f), x), shift);
}

Value gated_add(ir::Builder& b, Value x, Value gate, Value y) {
  return ops::add(b, x, ops::mul(b, gate, y));
}

Value split_heads(ir::Builder& b, Value x, std::int64_t heads) {
  return ops::reshape(b, x, {x.dim(0), x.dim(1), heads, x.dim(2) / heads});
}

Value merge_heads(ir::Builder& b, Value x) {
  return ops::reshape(b, x, {x.dim(0), x.dim(1), x.dim(2) * x.dim(3)});
}

float attention_scale(std::int64_t head_dim) {
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(head_dim)));
}

}  // namespace dif::frontends
