#pragma once

#include <vector>

#include "frontends/blocks/qwen3.h"
#include "frontends/flux2/config.h"
#include "frontends/synthetic/synthetic_model.h"

/// The tensors of a published checkpoint by configuration: names and shapes in the diffusers layout, in the
/// order in which the reference framework creates them, with the distribution that a random one draws them
/// from. Source of the names: diffusers transformer_flux2.py, autoencoder_kl_flux2.py and vae.py;
/// transformers modeling_qwen3.py.
namespace dif::frontends::flux2 {

std::vector<SyntheticTensor> transformer_tensors(const TransformerConfig& config, DType dtype);

/// `tied`: the output head is the embedding table.
std::vector<SyntheticTensor> qwen3_tensors(const Qwen3Config& config, bool tied, DType dtype);

/// Both halves and the batch norm's statistics.
std::vector<SyntheticTensor> vae_tensors(const VaeConfig& decoder, const VaeEncoderConfig& encoder,
                                         DType dtype);

}  // namespace dif::frontends::flux2
