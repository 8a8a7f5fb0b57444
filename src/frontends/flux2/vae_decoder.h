#pragma once

#include <cstdint>

#include "frontends/blocks/module.h"
#include "frontends/flux2/config.h"

namespace dif::frontends::flux2 {

/// Sampled tokens f32 [1, rows * columns, 4 * latent_channels] -> the VAE's latents f32
/// [1, latent_channels, 2 * rows, 2 * columns]: undoes the batch norm of the packed channels, then the 2x2
/// packing (channel c*4 + dy*2 + dx). In f32 whatever the module's dtype.
ir::Value unpack_latents(const Module& root, const VaeConfig& config, ir::Value tokens, std::int64_t rows,
                         std::int64_t columns);

/// Latents [1, latent_channels, h, w] in the module's dtype -> image [1, 3, scale * h, scale * w], about [-1,
/// 1]. Source: diffusers, autoencoder_kl_flux2.py and vae.py.
ir::Value build_vae_decoder(const Module& root, const VaeConfig& config, ir::Value latents);

}  // namespace dif::frontends::flux2
