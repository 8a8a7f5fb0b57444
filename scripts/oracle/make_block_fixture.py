#!/usr/bin/env python3
"""Writes a fixture for difflux2block: what goes into a part of FLUX.2 and what diffusers makes of it (docs/parity.md).

    make_block_fixture.py MODEL -o creator.safetensors [--block N] [--single | --transformer | --vae]
                          [--rows N] [--columns N] [--text-tokens N] [--batch-size N] [--dtype f32|bf16] [--seed N]

Inputs are random; for a block they are what the whole transformer hands to it. Every boundary inside the part is written too,
under diffusers' module paths. --rows and --columns count latent tokens, with --vae the decoder's latents.
"""
import argparse
import inspect
import pathlib
import sys

import safetensors.torch
import torch
from diffusers import AutoencoderKLFlux2, Flux2Transformer2DModel

from dump_reference import DTYPES, Recorder


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True)
    parser.add_argument("--block", type=int, default=0)
    part = parser.add_mutually_exclusive_group()
    for name in ("single", "transformer", "vae"):
        part.add_argument(f"--{name}", action="store_true")
    parser.add_argument("--rows", type=int, default=4)
    parser.add_argument("--columns", type=int, default=4)
    parser.add_argument("--text-tokens", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=1)
    parser.add_argument("--dtype", choices=DTYPES, default="f32")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def keep_inputs(recorder, module, wanted):
    """Keeps arguments of the first call by their names."""
    names = inspect.signature(module.forward)

    def hook(_module, args, kwargs):
        given = names.bind(*args, **kwargs).arguments
        for name in wanted:
            if given.get(name) is not None:
                recorder.keep(name, given[name])
        if "image_rotary_emb" in given:
            recorder.keep("rotary_cos", given["image_rotary_emb"][0].float())
            recorder.keep("rotary_sin", given["image_rotary_emb"][1].float())

    module.register_forward_pre_hook(hook, with_kwargs=True)


def transformer(options, recorder):
    model = Flux2Transformer2DModel.from_pretrained(options.model, subfolder="transformer", torch_dtype=DTYPES[options.dtype])
    block = (model.single_transformer_blocks if options.single else model.transformer_blocks)[options.block]
    if options.transformer:
        keep_inputs(recorder, model, ("hidden_states", "encoder_hidden_states", "timestep"))
        keep_inputs(recorder, model.transformer_blocks[0], ())  # for the rotation
        recorder.watch("transformer", model)
    else:
        keep_inputs(recorder, block, ("hidden_states", "encoder_hidden_states", "temb_mod", "temb_mod_img", "temb_mod_txt"))
        kind = "single_transformer_blocks" if options.single else "transformer_blocks"
        name = f"transformer.{kind}.{options.block}"
        recorder.watch(name, block)
        block.register_forward_hook(lambda _module, _args, output: recorder.keep_output(name, output))
    draw = torch.Generator().manual_seed(options.seed)
    tokens = options.rows * options.columns

    def noise(*shape):
        return torch.randn(shape, generator=draw).to(DTYPES[options.dtype])

    def ids(rows):
        return torch.tensor(rows).float().expand(options.batch_size, -1, -1)

    image_ids = ids([[0, r, c, 0] for r in range(options.rows) for c in range(options.columns)])
    model(hidden_states=noise(options.batch_size, tokens, model.config.in_channels),
          encoder_hidden_states=noise(options.batch_size, options.text_tokens, model.config.joint_attention_dim),
          timestep=torch.full((options.batch_size,), 0.75).to(DTYPES[options.dtype]), img_ids=image_ids,
          txt_ids=ids([[0, 0, 0, i] for i in range(options.text_tokens)]), guidance=None, return_dict=False)


def vae(options, recorder):
    model = AutoencoderKLFlux2.from_pretrained(options.model, subfolder="vae", torch_dtype=DTYPES[options.dtype])
    recorder.watch("vae", model)
    latents = torch.randn((1, model.config.latent_channels, options.rows, options.columns),
                          generator=torch.Generator().manual_seed(options.seed)).to(DTYPES[options.dtype])
    recorder.keep("latents", latents)
    model.decode(latents, return_dict=False)


def main() -> int:
    options, recorder = arguments(), Recorder()
    with torch.no_grad():
        (vae if options.vae else transformer)(options, recorder)
    tensors = recorder.tensors
    for name in ("temb_mod", "temb_mod_img", "temb_mod_txt", "timestep"):  # one time for the whole batch
        if name in tensors:
            first = tensors[name][:1].contiguous()
            tensors[name] = first.float() if name == "timestep" else first.reshape(1, -1)
    safetensors.torch.save_file(tensors, options.output)
    print(f"{options.output}: {len(tensors)} tensors")
    return 0


if __name__ == "__main__":
    sys.exit(main())
