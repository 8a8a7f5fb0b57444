#pragma once

#include <array>

#include "ops/add/add.op.h"
#include "ops/add_scalar/add_scalar.op.h"
#include "ops/attention/attention.op.h"
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

/// Two products of x [batches, rows, depth], or one read in halves, and SwiGLU, beside x in a joint result.
/// The weights are inputs.
inline ir::Program swiglu(DType dtype, std::int64_t batches, std::int64_t rows, std::int64_t depth,
                          std::int64_t columns, bool joined) {
  ir::Builder b("swiglu");
  const ir::Value x = b.input("x", {dtype, {batches, rows, depth}});
  ir::Value gate, up;
  if (joined) {
    const ir::Value both = ops::linear(b, x, b.input("w", {dtype, {2 * columns, depth}}));
    gate = ops::slice(b, both, 2, 0, columns);
    up = ops::slice(b, both, 2, columns, 2 * columns);
  } else {
    gate = ops::linear(b, x, b.input("gate", {dtype, {columns, depth}}));
    up = ops::linear(b, x, b.input("up", {dtype, {columns, depth}}));
  }
  const ir::Value inner = ops::mul(b, ops::silu(b, gate), up);
  b.output("y", ops::concat(b, std::array{ops::silu(b, x), inner}, 2));
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

/// Two streams of 16 and `image` tokens that attend to each other, and the joint one beside an own branch:
/// what a planner puts in place (plan/in_place.h).
inline ir::Program streams(DType dtype, std::int64_t batches, std::int64_t image, std::int64_t heads,
                           std::int64_t width) {
  const std::int64_t channels = heads * width, text = 16;
  ir::Builder b("streams");
  const ir::Value weight = b.constant("w", {dtype, {channels, channels}});
  const ir::Value norm = b.constant("norm", {dtype, {width}});
  const auto stream = [&](const char* name, std::int64_t tokens) {
    const ir::Value x = b.input(name, {dtype, {batches, tokens, channels}});
    const std::string table = name;
    const ir::Value cosines = b.constant(table + " cos", {DType::kF32, {tokens, width / 2}}),
                    sines = b.constant(table + " sin", {DType::kF32, {tokens, width / 2}});
    const Shape by_head = {batches, tokens, heads, width};
    const ir::Value q = ops::reshape(b, ops::linear(b, x, weight), by_head);
    return std::pair(ops::rotary(b, ops::rms_norm(b, q, norm), cosines, sines, true),
                     ops::reshape(b, ops::linear(b, x, weight), by_head));
  };
  const auto [text_q, text_v] = stream("text", text);
  const auto [image_q, image_v] = stream("image", image);
  const ir::Value q = ops::concat(b, std::array{text_q, image_q}, 1),
                  v = ops::concat(b, std::array{text_v, image_v}, 1);
  const ir::Value seen = ops::reshape(b, ops::attention(b, q, q, v, std::nullopt, false, 0.1f),
                                      {batches, text + image, channels});
  b.output("text", ops::linear(b, ops::slice(b, seen, 1, 0, text), weight));
  b.output("image", ops::silu(b, ops::slice(b, seen, 1, text, text + image)));
  const ir::Value again = ops::reshape(b, ops::attention(b, q, q, q, std::nullopt, false, 0.2f),
                                       {batches, text + image, channels});
  const ir::Value beside = ops::silu(b, ops::reshape(b, v, {batches, text + image, channels}));
  const ir::Value both = ops::concat(b, std::array{again, beside}, 2);
  b.output("both", ops::linear(b, both, b.constant("wide", {dtype, {channels, 2 * channels}})));
  return runtime::test::finish(b);
}

}  // namespace dif::cuda::testing
