#!/usr/bin/env python3
"""Reruns the cases of tests/fixtures/emoji-klein here and prints how far the results are from the fixtures.

    check_fixtures.py [--threads N]

Exit status 1 when noise or schedule differ at all, latents by more than 1e-5 relative, or a picture by more than 1.
"""
import argparse
import json
import pathlib
import sys

import dump_reference
import safetensors.torch
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "tests" / "fixtures" / "emoji-klein"


def relative(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    return ((ours.double() - theirs.double()).norm() / theirs.double().norm()).item()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", default="2")
    threads = parser.parse_args().threads
    good = True
    for case in json.loads((FIXTURES / "fixtures.json").read_text())["cases"]:
        fixture = safetensors.torch.load_file(FIXTURES / case["file"])
        ours, _, _ = dump_reference.run(dump_reference.arguments(
            [str(ROOT / "models" / "emoji-klein"), "-o", "/dev/null", "--prompt", case["prompt"], "--seed",
             str(case["seed"]), "--steps", str(case["steps"]), "--guidance", str(case["guidance"]), "--size", "128x128",
             "--text-tokens", "512", "--threads", threads]))
        exact = [name for name in ("input_ids", "initial_noise", "initial_latents", "sigmas", "timesteps", "mu")
                 if not torch.equal(ours[name], fixture[name])]
        steps = [relative(a, b) for a, b in zip(ours["latents_steps"], fixture["latents_steps"])]
        levels = (ours["image_u8"].int() - fixture["image_u8"].int()).abs()
        print(f"{case['name']}: not equal: {exact or 'none'}; prompt_embeds "
              f"{relative(ours['prompt_embeds'], fixture['prompt_embeds']):.1e}; latents {steps[0]:.1e} after step 1, "
              f"{steps[-1]:.1e} after step {len(steps)}; picture {levels.max().item()} levels at "
              f"{(levels > 0).sum().item()} of {levels.numel()} values")
        good = good and not exact and steps[-1] <= 1e-5 and levels.max().item() <= 1
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
