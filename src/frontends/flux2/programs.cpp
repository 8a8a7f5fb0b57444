#include "frontends/flux2/programs.h"

#include <array>
#include <functional>

#include "base/error.h"
#include "frontends/flux2/key_layouts.h"
#include "frontends/flux2/transformer.h"
#include "frontends/flux2/vae_decoder.h"
#include "ops/add/add.op.h"
#include "ops/cast/cast.op.h"
#include "ops/concat/concat.op.h"
#include "ops/gather_rows/gather_rows.op.h"
#include "ops/mul/mul.op.h"
#include "ops/mul_scalar/mul_scalar.op.h"
#include "ops/slice/slice.op.h"
#include "ops/sub/sub.op.h"

namespace dif::frontends::flux2 {

namespace {

using ir::Builder;
using ir::Value;

Value cast_to(Builder& b, Value x, DType dtype) {
  return x.dtype() == dtype ? x : ops::cast(b, x, dtype);
}

/// x rounded to `dtype`, as f32 again.
Value rounded_to(Builder& b, Value x, DType dtype) {
  return dtype == DType::kF32 ? x : ops::cast(b, ops::cast(b, x, dtype), DType::kF32);
}

Result<Stage> finish(Builder& b, ConstantSet constants, const WeightLookup& weights,
                     const std::function<bool(std::string_view)>& may_be_unused) {
  DIF_ASSIGN(ir::Program program, b.finish());
  DIF_TRY(weights.check(may_be_unused));
  return Stage{std::move(program), std::move(constants)};
}

/// diffusers' classifier-free guidance, in the dtype of the velocities: v = v_u + g * (v_c - v_u). The batch
/// is (uncond, cond).
Value guide(Builder& b, Value velocities, float guidance) {
  const Value uncond = ops::slice(b, velocities, 0, 0, 1);
  const Value cond = ops::slice(b, velocities, 0, 1, 2);
  b.boundary("noise_pred_uncond", uncond);
  b.boundary("noise_pred_cond", cond);
  return ops::add(b, uncond, ops::mul_scalar(b, ops::sub(b, cond, uncond), guidance));
}

}  // namespace

Result<Stage> build_encode(const Qwen3Config& config, const WeightSource& source,
                           std::span<const std::int64_t> taps, std::int64_t text_tokens, DType dtype) {
  Builder b("encode");
  ConstantSet constants;
  WeightLookup weights(b, constants, source);
  const Value ids = b.input("input_ids", {DType::kI32, {1, text_tokens}});
  const Value mask = b.input("attention_mask", {DType::kBool, {1, text_tokens}});
  const Rotation rotation = add_rotary_table(
      b, constants, "rotary", rotary_table_f32(text_tokens, config.head_dim, config.rope_theta));
  {
    const Module root(b, weights, "text_encoder", dtype);
    b.output("prompt_embeds", build_qwen3(root, config, ids, mask, taps, rotation));
  }
  return finish(b, std::move(constants), weights,
                [&](std::string_view name) { return qwen3_may_be_unused(name, taps.back()); });
}

Result<Stage> build_step(const TransformerConfig& config, const WeightSource& source,
                         const StepGeometry& geometry) {
  Builder b("step");
  ConstantSet constants;
  WeightLookup weights(b, constants, source);
  const std::int64_t tokens = geometry.rows * geometry.columns;
  const ir::TensorType prompt_type{geometry.dtype, {1, geometry.text_tokens, config.text_width}};
  const Value latents =
      rounded_to(b, b.input("latents", {DType::kF32, {1, tokens, config.in_channels}}), geometry.state_dtype);
  Value prompt = b.input("prompt_embeds", prompt_type);
  Value x = cast_to(b, latents, geometry.dtype);
  if (geometry.guidance) {
    const Value negative = b.input("negative_prompt_embeds", prompt_type);
    prompt = ops::concat(b, std::array{negative, prompt}, 0);
    x = ops::concat(b, std::array{x, x}, 0);
  }
  const Value step = b.input("step", {DType::kI32, {1}});
  const Value model_time =
      ops::gather_rows(b, b.constant("schedule.model_time", {DType::kF32, {geometry.steps}}), step);
  const Value delta_sigma =
      ops::gather_rows(b, b.constant("schedule.delta_sigma", {DType::kF32, {geometry.steps, 1}}), step);
  const Rotation rotation = add_rotary_table(
      b, constants, "rotary", rotary_table(config, geometry.text_tokens, geometry.rows, geometry.columns));

  Value velocity;
  {
    const Module root(b, weights, "transformer", geometry.dtype);
    velocity = build_transformer(root, config, x, prompt, model_time, rotation);
  }
  if (geometry.guidance) velocity = guide(b, velocity, *geometry.guidance);
  b.boundary("noise_pred", velocity);
  // The step is f32 whatever the model's dtype, and rounded to the dtype of the state (NOTES.md).
  const Value moved = ops::mul(b, delta_sigma, cast_to(b, velocity, DType::kF32));
  const Value next = ops::add(b, latents, rounded_to(b, moved, geometry.state_dtype));
  b.output("latents", rounded_to(b, next, geometry.state_dtype));
  return finish(b, std::move(constants), weights, [](std::string_view) { return false; });
}

Result<Stage> build_decode(const VaeConfig& config, const WeightSource& source, std::int64_t rows,
                           std::int64_t columns, DType dtype) {
  Builder b("decode");
  ConstantSet constants;
  WeightLookup weights(b, constants, source);
  const std::int64_t width = kPatch * kPatch * config.latent_channels;
  const Value tokens = b.input("latents", {DType::kF32, {1, rows * columns, width}});
  Value image;
  {
    const Module root(b, weights, "vae", dtype);
    const Value latents = unpack_latents(root, config, tokens, rows, columns);
    b.boundary("decode.z", latents);
    image = build_vae_decoder(root, config, cast_to(b, latents, dtype));
  }
  b.output("image", cast_to(b, image, DType::kF32));
  return finish(b, std::move(constants), weights, vae_may_be_unused);
}

}  // namespace dif::frontends::flux2
