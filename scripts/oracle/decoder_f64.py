"""The boundary vae.decoder.conv_norm_out in float64, from the fixture's own vae.post_quant_conv.

tests/fixtures/emoji-klein/boundaries.safetensors holds that one rounded to float16: 2.2e-4 (relative L2) from float64, where
PyTorch's float32 decoder lies 3e-7 from it. So it is judged against float64 instead:
tests/fixtures/emoji-klein-f64/conv_norm_out.safetensors, rounded once to float32.

usage: decoder_f64.py [ROOT]      ROOT = the repository, default: two folders above this file
"""
import pathlib
import sys

import torch
from diffusers import AutoencoderKLFlux2
from safetensors.torch import load_file, save_file

root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parents[2]
name = "vae.decoder.conv_norm_out"
boundaries = load_file(root / "tests/fixtures/emoji-klein/boundaries.safetensors")


def decode(dtype):
    vae = AutoencoderKLFlux2.from_pretrained(root / "models/emoji-klein/vae", torch_dtype=torch.float32).to(dtype)
    seen = {}
    vae.decoder.conv_norm_out.register_forward_hook(lambda module, inputs, output: seen.update(value=output))
    with torch.no_grad():
        vae.decoder(boundaries["vae.post_quant_conv"].to(dtype))
    return seen["value"][:, ::8].double()


def distance(a, b):
    return ((a - b).norm() / b.norm()).item()


exact = decode(torch.float64)
print("fixture from float64:", distance(boundaries[name].double(), exact))
print("float32 here from float64:", distance(decode(torch.float32), exact))
target = root / "tests/fixtures/emoji-klein-f64/conv_norm_out.safetensors"
save_file({name: exact.float().contiguous()}, target, {"torch": torch.__version__})
