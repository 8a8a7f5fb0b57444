#!/usr/bin/env python3
"""Makes the picture of each reference with `dif generate` and prints how far it is from diffusers'.

    compare_run.py DIF REFERENCE.safetensors ... [-- OPTION ...]

REFERENCE is a file of dump_reference.py in the model's folder (or name the model with --model). Options after -- go
to `dif generate`. Exit status 1 when latents differ by more than 2e-5 relative, or a picture by more than 1 level.
"""
import argparse
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

import numpy as np
import safetensors
from PIL import Image


def read_diftensor(path: pathlib.Path) -> np.ndarray:
    data = path.read_bytes()
    dtype, rank = data[12], data[13]
    if dtype != 0:
        raise ValueError(f"{path}: expected f32")
    shape = struct.unpack_from(f"<{rank}q", data, 16)
    return np.frombuffer(data[16 + 8 * rank : -32], dtype="<f4").reshape(shape)


def compare(dif: str, reference: pathlib.Path, model: pathlib.Path, options: list[str]) -> bool:
    with safetensors.safe_open(reference, framework="numpy") as file:
        settings = json.loads(file.metadata()["settings"])
        latents, picture = file.get_tensor("latents_steps")[-1], file.get_tensor("image_u8")
    with tempfile.TemporaryDirectory() as scratch:
        png, saved = pathlib.Path(scratch) / "out.png", pathlib.Path(scratch) / "latents.diftensor"
        run = subprocess.run(
            [dif, "generate", settings["prompt"], "--model", model, "--seed", str(settings["seed"]), "--steps",
             str(settings["steps"]), "--guidance", str(settings["guidance"]), "--size", settings["size"],
             "--text-tokens", str(settings["text_tokens"]), "--progress", "none", "-o", png, "--save-latents", saved,
             *options], capture_output=True, text=True)
        if run.returncode != 0:
            print(f"{model.name}: exit {run.returncode}: {run.stderr.strip()}")
            return False
        ours = read_diftensor(saved).reshape(latents.shape).astype(np.float64)
        error = np.linalg.norm(ours - latents) / np.linalg.norm(latents)
        levels = np.abs(np.asarray(Image.open(png)).astype(int) - picture.astype(int))
    good = error <= 2e-5 and levels.max() <= 1
    print(f"{model.name}: {'ok' if good else 'FAIL'}: latents {error:.1e}, picture {levels.max()} levels at "
          f"{(levels > 0).sum()} of {levels.size} values")
    return good


def main() -> int:
    arguments, options = sys.argv[1:], []
    if "--" in arguments:
        at = arguments.index("--")
        arguments, options = arguments[:at], arguments[at + 1 :]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dif")
    parser.add_argument("reference", type=pathlib.Path, nargs="+")
    parser.add_argument("--model", type=pathlib.Path)
    parsed = parser.parse_args(arguments)
    good = [compare(parsed.dif, reference, parsed.model or reference.parent, options) for reference in parsed.reference]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
