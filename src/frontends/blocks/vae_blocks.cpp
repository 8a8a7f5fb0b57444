#include "frontends/blocks/vae_blocks.h"

#include "frontends/blocks/layers.h"
#include "ops/add/add.op.h"
#include "ops/attention/attention.op.h"
#include "ops/reshape/reshape.op.h"
#include "ops/silu/silu.op.h"
#include "ops/transpose/transpose.op.h"
#include "ops/upsample_nearest/upsample_nearest.op.h"

namespace dif::frontends {

Value vae_resnet(const Module& parent, std::string_view name, Value x, std::int64_t channels, VaeNorm norm) {
  const Module module(parent, name);
  ir::Builder& b = module.b();
  Value h = ops::silu(b, group_norm(module, "norm1", x, norm.groups, norm.eps));
  h = conv2d(module, "conv1", h, channels, 3);
  h = ops::silu(b, group_norm(module, "norm2", h, norm.groups, norm.eps));
  h = conv2d(module, "conv2", h, channels, 3);
  const Value skip = x.dim(1) == channels ? x : conv2d(module, "conv_shortcut", x, channels, 1);
  return module.result(ops::add(b, skip, h));
}

Value vae_attention(const Module& parent, std::string_view name, Value x, VaeNorm norm) {
  const Module module(parent, name);
  ir::Builder& b = module.b();
  const std::int64_t channels = x.dim(1), positions = x.dim(2) * x.dim(3);
  const Value flat = ops::reshape(b, x, {x.dim(0), channels, positions});
  const Value h = ops::transpose(b, group_norm(module, "group_norm", flat, norm.groups, norm.eps), {0, 2, 1});
  const Value q = split_heads(b, linear(module, "to_q", h, channels, true), 1);
  const Value k = split_heads(b, linear(module, "to_k", h, channels, true), 1);
  const Value v = split_heads(b, linear(module, "to_v", h, channels, true), 1);
  const Value seen = ops::attention(b, q, k, v, std::nullopt, /*causal=*/false, attention_scale(channels));
  const Value out = linear(module, "to_out.0", merge_heads(b, seen), channels, true);
  const Value image = ops::reshape(b, ops::transpose(b, out, {0, 2, 1}), x.shape());
  return module.result(ops::add(b, image, x));
}

Value vae_upsample(const Module& parent, std::string_view name, Value x) {
  const Module module(parent, name);
  return module.result(conv2d(module, "conv", ops::upsample_nearest(module.b(), x, 2), x.dim(1), 3));
}

Value vae_mid_block(const Module& parent, std::string_view name, Value x, bool attention, VaeNorm norm) {
  const Module module(parent, name);
  x = vae_resnet(module, "resnets.0", x, x.dim(1), norm);
  if (attention) x = vae_attention(module, "attentions.0", x, norm);
  return module.result(vae_resnet(module, "resnets.1", x, x.dim(1), norm));
}

Value vae_up_block(const Module& parent, std::string_view name, Value x, std::int64_t channels,
                   std::int64_t resnets, bool upsample, VaeNorm norm) {
  const Module module(parent, name);
  for (std::int64_t i = 0; i < resnets; ++i)
    x = vae_resnet(module, with_number("resnets.#", i), x, channels, norm);
  if (upsample) x = vae_upsample(module, "upsamplers.0", x);
  return module.result(x);
}

}  // namespace dif::frontends
