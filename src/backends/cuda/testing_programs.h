#pragma once

#include <array>

#include "ops/add/add.op.h"
#include "ops/add_scalar/add_scalar.op.h"
#include "ops/cast/cast.op.h"
#include "ops/concat/concat.op.h"
#include "ops/conv2d/conv2d.op.h"
#include "ops/group_norm/group_norm.op.h"
#include "ops/layer_norm/layer_norm.op.h"
#include "ops/linear/linear.op.h"
#include "ops/mul/mul.op.h"
#include "ops/reshape/reshape.op.h"
#include "ops/rms_norm/rms_norm.op.h"
#include "ops/rotary/rotary.op.h"
#include "ops/silu/silu.op.h"
#include "ops/slice/slice.op.h"
#include "runtime/test_programs.h"

namespace dif::cuda::testing {

/// Half a DiT block: norm, modulation, product, heads with their own norm and rotary, SwiGLU, gate.
inline ir::Program block(DType dtype, std::int64_t tokens, std::int64_t heads, std::int64_t width) {
  const std::int64_t channels = heads * width;
  ir::Builder b("block");
  const ir::Value x = b.input("x", {dtype, {2, tokens, channels}});
  const ir::Value modulation = b.input("modulation", {dtype, {2, 1, 3 * channels}});
  const ir::Value shift = ops::slice(b, modulation, 2, 0, channels);
  const ir::Value scale = ops::add_scalar(b, ops::slice(b, modulation, 2, channels, 2 * channels), 1);
  const ir::Value gate = ops::slice(b, modulation, 2, 2 * channels, 3 * channels);
  const ir::Value normal = ops::add(b, ops::mul(b, ops::layer_norm(b, x, 1e-6f), scale), shift);
  const ir::Value wide = ops::linear(b, normal, b.constant("w", {dtype, {3 * channels, channels}}));
  const ir::Value q = ops::reshape(b, ops::slice(b, wide, 2, 0, channels), {2, tokens, heads, width});
  const ir::Value q_normal = ops::rms_norm(b, q, b.constant("q_weight", {dtype, {width}}));
  const ir::Value cosines = b.constant("cos", {DType::kF32, {tokens, width / 2}}),
                  sines = b.constant("sin", {DType::kF32, {tokens, width / 2}});
  b.output("q", ops::rotary(b, q_normal, cosines, sines, true));
  b.output("k", ops::rotary(b, q_normal, cosines, sines, false));
  const ir::Value half = ops::slice(b, wide, 2, channels, 2 * channels);
  const ir::Value swiglu =
      ops::mul(b, ops::silu(b, half), ops::slice(b, wide, 2, 2 * channels, 3 * channels));
  const ir::Value gated = ops::add(b, x, ops::mul(b, gate, swiglu));
  b.output("y", gated);
  b.output("both", ops::concat(b, std::array{gated, half}, 2));
  b.output("wide", ops::cast(b, gated, DType::kF32));
  return runtime::test::finish(b);
}

/// Half a block of an image decoder, channels last: "normal" is what group_norm and silu give, "y" the
/// convolution of it on top of x.
inline ir::Program image_block(DType dtype, std::int64_t height, std::int64_t width, std::int64_t channels,
                               std::int64_t groups) {
  ir::Builder b("image_block");
  const ir::Value x = b.input("x", {dtype, {2, height, width, channels}});
  const ir::Value normal =
      ops::silu(b, ops::group_norm(b, x, b.constant("w", {dtype, {channels}}),
                                   b.constant("bias", {dtype, {channels}}), groups, 1e-6f, true));
  b.output("normal", normal);
  const ir::Value filters = b.constant("filters", {dtype, {channels, 3, 3, channels}});
  b.output("y", ops::add(b, x,
                         ops::conv2d(b, normal, filters, b.constant("shift", {dtype, {channels}}),
                                     {.pads = {1, 1, 1, 1}, .channels_last = true})));
  return runtime::test::finish(b);
}

}  // namespace dif::cuda::testing
