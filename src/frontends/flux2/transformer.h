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

/// The rows of the image and of the prompt, [B, S, C] and [B, T, C].
struct Streams {
  ir::Value image, text;
};

/// One block by itself. A modulation holds shift, scale and gate of each half of a block: [1, 6 C] for a
/// stream of a double block, [1, 3 C] for a single block, whose rows are the prompt's and then the image's.
/// `rotation` has T + S rows.
Streams build_double_block(const Module& root, const TransformerConfig& config, std::int64_t number,
                           Streams rows, ir::Value image_modulation, ir::Value text_modulation,
                           const Rotation& rotation);
ir::Value build_single_block(const Module& root, const TransformerConfig& config, std::int64_t number,
                             ir::Value rows, ir::Value modulation, const Rotation& rotation);

}  // namespace dif::frontends::flux2
