#!/usr/bin/env python3
"""Rewrites a FLUX.2 folder of the diffusers layout with the creator's key names and fused weights.

    to_creator_layout.py MODEL OUT [--in-folders] [--no-config] [--check]

OUT is a copy of MODEL but for two files: the transformer as OUT/flux2.safetensors and the autoencoder as
OUT/ae.safetensors, which take the place of the weights in transformer/ and vae/. --in-folders puts them into those
folders instead; --no-config leaves out the two config.json, as in a folder that was never converted. --check reads both
files back: the transformer through diffusers' own converter of creator checkpoints, the autoencoder by undoing each
change, and compares every weight with MODEL.

The changes: q, k and v become one matrix; the rows of the last modulation are shift then scale; the decoder's levels
are numbered from the image inwards; the autoencoder's attention uses 1x1 convolutions.
"""
import argparse
import json
import pathlib
import re
import shutil
import sys

import safetensors.torch
import torch

TRANSFORMER = [
    (r"x_embedder\.(.*)", r"img_in.\1"),
    (r"context_embedder\.(.*)", r"txt_in.\1"),
    (r"time_guidance_embed\.timestep_embedder\.linear_1\.(.*)", r"time_in.in_layer.\1"),
    (r"time_guidance_embed\.timestep_embedder\.linear_2\.(.*)", r"time_in.out_layer.\1"),
    (r"time_guidance_embed\.guidance_embedder\.linear_1\.(.*)", r"guidance_in.in_layer.\1"),
    (r"time_guidance_embed\.guidance_embedder\.linear_2\.(.*)", r"guidance_in.out_layer.\1"),
    (r"((?:double|single)_stream_modulation(?:_img|_txt)?)\.linear\.(.*)", r"\1.lin.\2"),
    (r"transformer_blocks\.(\d+)\.attn\.norm_q\.weight", r"double_blocks.\1.img_attn.norm.query_norm.scale"),
    (r"transformer_blocks\.(\d+)\.attn\.norm_k\.weight", r"double_blocks.\1.img_attn.norm.key_norm.scale"),
    (r"transformer_blocks\.(\d+)\.attn\.norm_added_q\.weight", r"double_blocks.\1.txt_attn.norm.query_norm.scale"),
    (r"transformer_blocks\.(\d+)\.attn\.norm_added_k\.weight", r"double_blocks.\1.txt_attn.norm.key_norm.scale"),
    (r"transformer_blocks\.(\d+)\.attn\.to_out\.0\.(.*)", r"double_blocks.\1.img_attn.proj.\2"),
    (r"transformer_blocks\.(\d+)\.attn\.to_add_out\.(.*)", r"double_blocks.\1.txt_attn.proj.\2"),
    (r"transformer_blocks\.(\d+)\.ff\.linear_in\.(.*)", r"double_blocks.\1.img_mlp.0.\2"),
    (r"transformer_blocks\.(\d+)\.ff\.linear_out\.(.*)", r"double_blocks.\1.img_mlp.2.\2"),
    (r"transformer_blocks\.(\d+)\.ff_context\.linear_in\.(.*)", r"double_blocks.\1.txt_mlp.0.\2"),
    (r"transformer_blocks\.(\d+)\.ff_context\.linear_out\.(.*)", r"double_blocks.\1.txt_mlp.2.\2"),
    (r"single_transformer_blocks\.(\d+)\.attn\.to_qkv_mlp_proj\.(.*)", r"single_blocks.\1.linear1.\2"),
    (r"single_transformer_blocks\.(\d+)\.attn\.to_out\.(.*)", r"single_blocks.\1.linear2.\2"),
    (r"single_transformer_blocks\.(\d+)\.attn\.norm_q\.weight", r"single_blocks.\1.norm.query_norm.scale"),
    (r"single_transformer_blocks\.(\d+)\.attn\.norm_k\.weight", r"single_blocks.\1.norm.key_norm.scale"),
    (r"norm_out\.linear\.(.*)", r"final_layer.adaLN_modulation.1.\1"),
    (r"proj_out\.(.*)", r"final_layer.linear.\1"),
]
FUSED = re.compile(r"transformer_blocks\.(\d+)\.attn\.(?:to_([qkv])|add_([qkv])_proj)\.(.*)")

VAE_COMMON = [
    (r"conv_shortcut\.", "nin_shortcut."),
    (r"^(encoder|decoder)\.mid_block\.resnets\.0\.", r"\1.mid.block_1."),
    (r"^(encoder|decoder)\.mid_block\.resnets\.1\.", r"\1.mid.block_2."),
    (r"^(encoder|decoder)\.mid_block\.attentions\.0\.group_norm\.", r"\1.mid.attn_1.norm."),
    (r"^(encoder|decoder)\.mid_block\.attentions\.0\.to_([qkv])\.", r"\1.mid.attn_1.\2."),
    (r"^(encoder|decoder)\.mid_block\.attentions\.0\.to_out\.0\.", r"\1.mid.attn_1.proj_out."),
    (r"^(encoder|decoder)\.conv_norm_out\.", r"\1.norm_out."),
    (r"^encoder\.down_blocks\.(\d+)\.resnets\.(\d+)\.", r"encoder.down.\1.block.\2."),
    (r"^encoder\.down_blocks\.(\d+)\.downsamplers\.0\.conv\.", r"encoder.down.\1.downsample.conv."),
    (r"^quant_conv\.", "encoder.quant_conv."),
    (r"^post_quant_conv\.", "decoder.post_quant_conv."),
]


def load(folder: pathlib.Path) -> dict[str, torch.Tensor]:
    tensors = {}
    for path in sorted(folder.glob("*.safetensors")):
        tensors |= safetensors.torch.load_file(path)
    return tensors


def swapped_halves(tensor: torch.Tensor) -> torch.Tensor:
    first, second = tensor.chunk(2, dim=0)
    return torch.cat([second, first], dim=0)


def creator_transformer(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    result, fused = {}, {}
    for name, tensor in tensors.items():
        if match := FUSED.fullmatch(name):
            block, image, text, rest = match.groups()
            stream = "img" if image else "txt"
            fused.setdefault(f"double_blocks.{block}.{stream}_attn.qkv.{rest}", {})[image or text] = tensor
            continue
        for pattern, replacement in TRANSFORMER:
            new, count = re.subn(f"^{pattern}$", replacement, name)
            if count:
                result[new] = swapped_halves(tensor) if "adaLN" in new else tensor
                break
        else:
            raise ValueError(f"no creator's name for {name}")
    for name, parts in fused.items():
        result[name] = torch.cat([parts["q"], parts["k"], parts["v"]], dim=0)
    return result


def creator_vae_name(name: str, levels: int) -> str:
    name = re.sub(r"^decoder\.up_blocks\.(\d+)\.resnets\.(\d+)\.",
                  lambda m: f"decoder.up.{levels - 1 - int(m[1])}.block.{m[2]}.", name)
    name = re.sub(r"^decoder\.up_blocks\.(\d+)\.upsamplers\.0\.conv\.",
                  lambda m: f"decoder.up.{levels - 1 - int(m[1])}.upsample.conv.", name)
    for pattern, replacement in VAE_COMMON:
        name = re.sub(pattern, replacement, name)
    return name


def creator_vae(tensors: dict[str, torch.Tensor], levels: int) -> dict[str, torch.Tensor]:
    result = {}
    for name, tensor in tensors.items():
        new = creator_vae_name(name, levels)
        is_projection = re.search(r"attn_1\.(q|k|v|proj_out)\.weight$", new)
        result[new] = tensor[:, :, None, None] if is_projection else tensor
    if len(result) != len(tensors):
        raise ValueError("two weights of the autoencoder have the same creator's name")
    return result


def check(model: pathlib.Path, transformer: pathlib.Path, vae: pathlib.Path, levels: int) -> bool:
    from diffusers.loaders.single_file_utils import convert_flux2_transformer_checkpoint_to_diffusers

    def same(name, ours, theirs):
        equal = ours.keys() == theirs.keys() and all(torch.equal(ours[key], theirs[key]) for key in ours)
        print(f"{name}: {len(theirs)} tensors, {'all equal' if equal else 'DIFFERENT'}")
        return equal

    original = load(model / "transformer")
    back = convert_flux2_transformer_checkpoint_to_diffusers(safetensors.torch.load_file(transformer))
    good = same("transformer, read back by diffusers", back, original)
    original = load(model / "vae")
    ours = safetensors.torch.load_file(vae)
    back = {name: ours[creator_vae_name(name, levels)].reshape(tensor.shape) for name, tensor in original.items()
            if creator_vae_name(name, levels) in ours}
    return same("autoencoder", back, original) and len(ours) == len(original) and good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--in-folders", action="store_true")
    parser.add_argument("--no-config", action="store_true")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()

    shutil.rmtree(options.out, ignore_errors=True)
    config = json.loads((options.model / "vae" / "config.json").read_text())
    levels = len(config["block_out_channels"])
    shutil.copytree(options.model, options.out,
                    ignore=shutil.ignore_patterns("*.safetensors", "*.safetensors.index.json", "reference*"))
    shutil.rmtree(options.out / "text_encoder")
    shutil.copytree(options.model / "text_encoder", options.out / "text_encoder")
    if options.no_config:
        for part in ("transformer", "vae"):
            shutil.rmtree(options.out / part)
    files = {}
    for part, stem, tensors in (("transformer", "flux2", creator_transformer(load(options.model / "transformer"))),
                                ("vae", "ae", creator_vae(load(options.model / "vae"), levels))):
        folder = options.out / part if options.in_folders else options.out
        folder.mkdir(exist_ok=True)
        files[part] = folder / f"{stem}.safetensors"
        safetensors.torch.save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, files[part])
        print(files[part])
    if options.check:
        return 0 if check(options.model, files["transformer"], files["vae"], levels) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
