#pragma once

#include <memory>

#include "frontends/blocks/weight_source.h"

namespace dif::frontends::flux2 {

/// The layout of a transformer's or VAE's checkpoint, found by its names: diffusers, or the creator's single
/// file. Sources: models.md section 1.5; diffusers loaders/single_file_utils.py.
std::unique_ptr<KeyLayout> transformer_layout(const io::Checkpoint& checkpoint);
std::unique_ptr<KeyLayout> vae_layout(const io::Checkpoint& checkpoint);

/// What a checkpoint holds, by its names, in either layout.
bool holds_transformer(const io::Checkpoint& checkpoint);
bool holds_vae(const io::Checkpoint& checkpoint);

/// Tensors of a VAE checkpoint that decoding does not need: the encoder's, and the batch counter.
bool vae_may_be_unused(std::string_view name);

}  // namespace dif::frontends::flux2
