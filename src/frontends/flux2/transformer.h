#pragma once

#include <cstdint>

#include "frontends/blocks/module.h"
#include "frontends/blocks/rotary_tables.h"
#include "frontends/flux2/config.h"

namespace dif::frontends::flux2 {

/// Rotation angles of `text_tokens` prompt rows, at (0, 0, 0, i), followed by rows x columns latent tokens,
/// at (0, r, c, 0).
RotaryTable rotary_table(const TransformerConfig& config, std::int64_t text_tokens, std::int64_t rows,
                         std::int64_t columns);

/// One evaluation: latents [B, S, C], prompt [B, T, W] in the module's dtype, model_time f32 [1] (sigma *
/// 1000) -> velocity [B, S, C]. `rotation` has T + S rows. One time for the whole batch. Source: diffusers,
/// transformer_flux2.py.
ir::Value build_transformer(const Module& root, const TransformerConfig& config, ir::Value latents,
                            ir::Value prompt, ir::Value model_time, const Rotation& rotation);

}  // namespace dif::frontends::flux2
