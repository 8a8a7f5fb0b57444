#include "frontends/flux2/vae_decoder.h"

#include "frontends/blocks/layers.h"
#include "frontends/blocks/vae_blocks.h"
#include "ops/add/add.op.h"
#include "ops/add_scalar/add_scalar.op.h"
#include "ops/cast/cast.op.h"
#include "ops/mul/mul.op.h"
#include "ops/reshape/reshape.op.h"
#include "ops/silu/silu.op.h"
#include "ops/sqrt/sqrt.op.h"
#include "ops/transpose/transpose.op.h"

namespace dif::frontends::flux2 {

namespace {

Value in_f32(ir::Builder& b, Value x) {
  return x.dtype() == DType::kF32 ? x : ops::cast(b, x, DType::kF32);
}

}  // namespace

Value unpack_latents(const Module& root, const VaeConfig& config, Value tokens, std::int64_t rows,
                     std::int64_t columns) {
  const Module module(root, "bn");
  ir::Builder& b = module.b();
  const std::int64_t width = kPatch * kPatch * config.latent_channels;
  const Value variance = in_f32(b, module.stored_weight("running_var", {width}));
  const Value mean = in_f32(b, module.stored_weight("running_mean", {width}));
  const Value deviation = ops::sqrt(b, ops::add_scalar(b, variance, config.bn_eps));
  const Value x = ops::add(b, ops::mul(b, tokens, deviation), mean);
  const Value patches = ops::reshape(b, x, {1, rows, columns, config.latent_channels, kPatch, kPatch});
  const Value planes = ops::transpose(b, patches, {0, 3, 1, 4, 2, 5});
  return ops::reshape(b, planes, {1, config.latent_channels, kPatch * rows, kPatch * columns});
}

Value build_vae_decoder(const Module& root, const VaeConfig& config, Value latents) {
  Value x = latents;
  if (config.post_quant_conv) x = conv2d(root, "post_quant_conv", x, config.latent_channels, 1);
  const Module decoder(root, "decoder");
  ir::Builder& b = decoder.b();
  const VaeNorm norm{.groups = config.norm_groups, .eps = 1e-6f};
  const auto levels = static_cast<std::int64_t>(config.channels.size());
  x = conv2d(decoder, "conv_in", x, config.channels.back(), 3);
  x = vae_mid_block(decoder, "mid_block", x, config.mid_attention, norm);
  for (std::int64_t block = 0; block < levels; ++block) {
    const auto level = static_cast<std::size_t>(levels - 1 - block);
    x = vae_up_block(decoder, with_number("up_blocks.#", block), x, config.channels[level], config.resnets,
                     /*upsample=*/level > 0, norm);
  }
  x = ops::silu(b, group_norm(decoder, "conv_norm_out", x, norm.groups, norm.eps));
  return decoder.result(conv2d(decoder, "conv_out", x, config.image_channels, 3));
}

}  // namespace dif::frontends::flux2
