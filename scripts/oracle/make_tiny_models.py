#!/usr/bin/env python3
"""Writes random checkpoints of unusual FLUX.2 klein configurations in the diffusers layout.

    make_tiny_models.py OUT_DIR [--only NAME ...] [--tokenizer DIR]

Each has the parts and files of a real one and about 2 MB of weights: seeded weights at a scale that keeps
activations near 1, batch-norm statistics and norm weights off their neutral values, and the tokenizer of
models/emoji-klein. VARIANTS below says what is unusual about each.
"""
import argparse
import pathlib
import shutil
import sys

import torch
from diffusers import (AutoencoderKLFlux2, FlowMatchEulerDiscreteScheduler, Flux2KleinPipeline,
                       Flux2Transformer2DModel)
from transformers import AutoTokenizer, Qwen3Config, Qwen3ForCausalLM

ROOT = pathlib.Path(__file__).resolve().parents[2]

TEXT = dict(vocab_size=1024, hidden_size=32, intermediate_size=48, num_hidden_layers=28, num_attention_heads=4,
            num_key_value_heads=2, head_dim=16, tie_word_embeddings=True, rope_theta=1e6, max_position_embeddings=2048)
TRANSFORMER = dict(num_layers=2, num_single_layers=2, num_attention_heads=2, attention_head_dim=32, mlp_ratio=3.0,
                   axes_dims_rope=(8, 8, 8, 8), rope_theta=2000, timestep_guidance_channels=256, guidance_embeds=False)
VAE = dict(block_out_channels=(16, 16, 32, 32), layers_per_block=1, latent_channels=4, norm_num_groups=8,
           sample_size=64)
SCHEDULER = dict(num_train_timesteps=1000, shift=3.0, use_dynamic_shifting=True, base_shift=0.5, max_shift=1.15)

# name -> changes to the parts above, and to the folder: distilled, shard (largest shard), dtype.
VARIANTS = {
    "distilled": dict(distilled=True),
    "head-dims": dict(text=dict(hidden_size=40, num_attention_heads=6, num_key_value_heads=3, head_dim=24,
                                intermediate_size=56, rms_norm_eps=1e-5, rope_theta=5e5),
                      transformer=dict(num_attention_heads=3, attention_head_dim=40, axes_dims_rope=(16, 8, 8, 8),
                                       mlp_ratio=2.0, rope_theta=10000, eps=1e-5)),
    "untied-sharded": dict(text=dict(tie_word_embeddings=False), transformer=dict(num_layers=3, num_single_layers=5),
                           shard="120KB"),
    "small-decoder": dict(vae=dict(decoder_block_out_channels=(8, 16, 16, 24), layers_per_block=2)),
    "no-mid-attention": dict(vae=dict(mid_block_add_attention=False, use_quant_conv=False, use_post_quant_conv=False,
                                      latent_channels=8, norm_num_groups=4, batch_norm_eps=1e-3)),
    "only-double": dict(transformer=dict(num_layers=3, num_single_layers=0)),
    "only-single": dict(transformer=dict(num_layers=0, num_single_layers=3)),
    "f16-weights": dict(dtype=torch.float16),
    "f32-static-shift": dict(dtype=torch.float32, scheduler=dict(use_dynamic_shifting=False)),
    "three-levels": dict(vae=dict(block_out_channels=(16, 16, 32), down_block_types=("DownEncoderBlock2D",) * 3,
                                  up_block_types=("UpDecoderBlock2D",) * 3)),
}


@torch.no_grad()
def randomise(model: torch.nn.Module, generator: torch.Generator) -> None:
    def normal(tensor, scale, centre=0.0):
        tensor.copy_(torch.randn(tensor.shape, generator=generator) * scale + centre)

    for name, tensor in model.named_parameters():
        if "embed_tokens" in name:
            normal(tensor, 1.0)
        elif tensor.ndim >= 2:
            normal(tensor, tensor[0].numel() ** -0.5)
        elif name.endswith("bias"):
            normal(tensor, 0.1)
        else:
            normal(tensor, 0.2, 1.0)
    for name, tensor in model.named_buffers():
        if name.endswith("running_mean"):
            normal(tensor, 0.5)
        elif name.endswith("running_var"):
            tensor.copy_(0.5 + 1.5 * torch.rand(tensor.shape, generator=generator))


def build(name: str, folder: pathlib.Path, tokenizer) -> None:
    variant = VARIANTS[name]
    text = TEXT | variant.get("text", {})
    vae = VAE | variant.get("vae", {})
    transformer = TRANSFORMER | variant.get("transformer", {})
    transformer |= dict(in_channels=4 * vae["latent_channels"], joint_attention_dim=3 * text["hidden_size"])
    generator = torch.Generator("cpu").manual_seed(sum(name.encode()))
    parts = dict(text_encoder=Qwen3ForCausalLM(Qwen3Config(**text, bos_token_id=998, eos_token_id=1000,
                                                           pad_token_id=998)),
                 transformer=Flux2Transformer2DModel(**transformer), vae=AutoencoderKLFlux2(**vae))
    for part in parts.values():
        randomise(part, generator)
        part.to(variant.get("dtype", torch.bfloat16))
    scheduler = FlowMatchEulerDiscreteScheduler(**(SCHEDULER | variant.get("scheduler", {})))
    pipe = Flux2KleinPipeline(scheduler=scheduler, tokenizer=tokenizer, is_distilled=variant.get("distilled", False),
                              **parts)
    shutil.rmtree(folder, ignore_errors=True)
    pipe.save_pretrained(folder, **({"max_shard_size": variant["shard"]} if "shard" in variant else {}))
    size = sum(path.stat().st_size for path in folder.rglob("*.safetensors"))
    print(f"{folder}: {size // 1024} KiB of weights in {len(list(folder.rglob('*.safetensors')))} files")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--only", nargs="+", choices=VARIANTS, default=list(VARIANTS), metavar="NAME")
    parser.add_argument("--tokenizer", type=pathlib.Path, default=ROOT / "models" / "emoji-klein" / "tokenizer")
    options = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(options.tokenizer)
    for name in options.only:
        build(name, options.out / name, tokenizer)
    return 0


if __name__ == "__main__":
    sys.exit(main())
