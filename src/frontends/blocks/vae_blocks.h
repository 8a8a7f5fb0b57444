#pragma once

#include <cstdint>
#include <string_view>

#include "frontends/blocks/module.h"

namespace dif::frontends {

/// Building blocks of the image autoencoders of diffusers (models/resnet.py, models/upsampling.py,
/// models/attention_processor.py, unets/unet_2d_blocks.py). x is [N, C, H, W] throughout.

/// How the blocks normalise.
struct VaeNorm {
  std::int64_t groups = 32;
  float eps = 1e-6f;
};

/// GroupNorm, SiLU, 3x3 convolution, twice; plus x (through a 1x1 convolution where the channels differ).
ir::Value vae_resnet(const Module& parent, std::string_view name, ir::Value x, std::int64_t channels,
                     VaeNorm norm);
/// x plus single-head attention over the positions of its GroupNorm; projections with bias.
ir::Value vae_attention(const Module& parent, std::string_view name, ir::Value x, VaeNorm norm);
/// Nearest neighbour 2x, then a 3x3 convolution.
ir::Value vae_upsample(const Module& parent, std::string_view name, ir::Value x);
/// Resnet, attention (if wanted), resnet.
ir::Value vae_mid_block(const Module& parent, std::string_view name, ir::Value x, bool attention,
                        VaeNorm norm);
/// `resnets` resnets to `channels`, then an upsampling (if wanted).
ir::Value vae_up_block(const Module& parent, std::string_view name, ir::Value x, std::int64_t channels,
                       std::int64_t resnets, bool upsample, VaeNorm norm);

}  // namespace dif::frontends
