#!/usr/bin/env python3
"""Writes the tables of reference values that the unit tests of src/pipelines compare with, bit for bit.

    make_test_tables.py [--check]

The values come from PyTorch (noise) and diffusers (schedules). --check compares with the committed tables instead
of writing them. Needs the environment of README.md beside this file.
"""
import argparse
import pathlib
import sys

import diffusers
import numpy as np
import torch
from diffusers import FlowMatchEulerDiscreteScheduler
from diffusers.pipelines.flux2.pipeline_flux2_klein import compute_empirical_mu

ROOM = pathlib.Path(__file__).resolve().parents[2] / "src" / "pipelines"
NOISE_SEEDS = (0, 42, 2**32 + 5, 2**64 - 1)
# One generator draws all of these one after the other, so the value that waits between calls is covered too.
NOISE_SIZES = (1, 2, 15, 16, 17, 31, 33, 100, 1000, 3, 16384, 5, 100003)
NOISE_LISTED = 17  # draws of up to this size are listed value by value
STEPS = (1, 2, 4, 8, 20, 28, 50, 100)
TOKENS = (1, 64, 256, 1024, 4096, 4300, 4301, 8100)


def bits(array: np.ndarray) -> np.ndarray:
    return array.view({2: np.uint16, 4: np.uint32, 8: np.uint64}[array.dtype.itemsize])


def fnv1a(array: np.ndarray) -> int:
    """64-bit FNV-1a over the little-endian bytes."""
    value = 0xCBF29CE484222325
    for byte in array.tobytes():
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value


def lines(items, per_line: int) -> str:
    items = list(items)
    return ",\n".join("    " + ", ".join(items[i : i + per_line]) for i in range(0, len(items), per_line))


def head(what: str) -> str:
    return (
        f"// Made by scripts/oracle/make_test_tables.py with {what}. Do not edit.\n"
        "// clang-format off\n#pragma once\n\n#include <array>\n#include <cstdint>\n\nnamespace dif::test {\n\n"
    )


def noise_table() -> str:
    out = head(f"torch {torch.__version__.split('+')[0]}")
    out += "inline constexpr std::array<std::uint64_t, %d> kNoiseSeeds = {%s};\n" % (
        len(NOISE_SEEDS), ", ".join(f"{seed}ULL" for seed in NOISE_SEEDS))
    out += "/// Draws of one generator, in this order.\n"
    out += "inline constexpr std::array<std::size_t, %d> kNoiseSizes = {%s};\n\n" % (
        len(NOISE_SIZES), ", ".join(map(str, NOISE_SIZES)))
    for name, dtype, view in (("F32", torch.float32, torch.int32), ("BF16", torch.bfloat16, torch.int16),
                              ("F16", torch.float16, torch.int16)):
        hashes, listed = [], []
        for seed in NOISE_SEEDS:
            generator = torch.Generator("cpu").manual_seed(seed)
            for size in NOISE_SIZES:
                draw = bits(torch.randn(size, generator=generator, dtype=dtype).view(view).numpy())
                hashes.append(f"0x{fnv1a(draw):016x}")
                if seed == 42 and size <= NOISE_LISTED:
                    listed += [f"0x{value:x}" for value in draw.tolist()]
        out += f"/// FNV-1a of the bits of each draw: [seed][size].\n"
        out += f"inline constexpr std::array<std::uint64_t, {len(hashes)}> k{name}Hashes = {{\n{lines(hashes, 5)}}};\n"
        out += f"/// The bits of the draws of at most {NOISE_LISTED} values for seed 42.\n"
        kind = "std::uint32_t" if name == "F32" else "std::uint16_t"
        out += f"inline constexpr std::array<{kind}, {len(listed)}> k{name}Listed = {{\n{lines(listed, 10)}}};\n\n"
    return out + f"inline constexpr std::size_t kNoiseListed = {NOISE_LISTED};\n\n}}  // namespace dif::test\n"


def model_times(timesteps: torch.Tensor, dtype: torch.dtype) -> np.ndarray:
    """What the transformer's time embedding receives, by the pipeline's own sequence of roundings."""
    times = [(t.expand(1).to(dtype) / 1000).to(dtype) * 1000 for t in timesteps]
    return torch.cat(times).float().numpy()


def schedule_table() -> str:
    klein = dict(num_train_timesteps=1000, shift=3.0, use_dynamic_shifting=True, time_shift_type="exponential")
    kinds = (("kExponential", klein), ("kLinear", klein | {"time_shift_type": "linear"}),
             ("kStatic", klein | {"use_dynamic_shifting": False}))
    out = head(f"diffusers {diffusers.__version__}, torch {torch.__version__.split('+')[0]}, numpy {np.__version__}")
    out += ("enum class Shifting { kExponential, kLinear, kStatic };\n\n"
            "/// Hashes are FNV-1a of the f32 bits.\n"
            "struct ScheduleCase {\n  Shifting shifting;\n  int steps;\n  int image_tokens;\n  std::uint64_t mu_bits;\n"
            "  std::uint64_t sigmas, timesteps, times_f32, times_bf16, times_f16;\n};\n\n")
    rows, listed = [], []
    for kind, config in kinds:
        scheduler = FlowMatchEulerDiscreteScheduler(**config)
        for steps in STEPS:
            for tokens in TOKENS if kind == "kExponential" else (64, 4301):
                mu = compute_empirical_mu(tokens, steps)
                scheduler.set_timesteps(steps, sigmas=np.linspace(1.0, 1 / steps, steps), mu=mu)
                sigmas, timesteps = scheduler.sigmas.numpy(), scheduler.timesteps.numpy()
                values = [sigmas, timesteps] + [model_times(scheduler.timesteps, dtype)
                                                for dtype in (torch.float32, torch.bfloat16, torch.float16)]
                rows.append("    {Shifting::%s, %d, %d, 0x%016x,\n     %s}" % (
                    kind, steps, tokens, bits(np.array([mu]))[0], ", ".join(f"0x{fnv1a(v):016x}" for v in values)))
                if (kind, steps, tokens) == ("kExponential", 20, 64):
                    listed = [f"0x{value:x}" for value in bits(sigmas).tolist()]
    out += f"inline constexpr std::array<ScheduleCase, {len(rows)}> kScheduleCases = {{{{\n" + ",\n".join(rows) + "}};\n\n"
    out += f"/// Sigmas of 20 steps for 64 tokens, exponential.\n"
    out += f"inline constexpr std::array<std::uint32_t, {len(listed)}> kSigmas20x64 = {{\n{lines(listed, 8)}}};\n\n"
    return out + "}  // namespace dif::test\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    check = parser.parse_args().check
    same = True
    for name, text in (("noise_test_table.h", noise_table()), ("flow_schedule_test_table.h", schedule_table())):
        path = ROOM / name
        # The first lines name the versions, which may differ.
        if check:
            equal = path.exists() and path.read_text().split("\n", 1)[1] == text.split("\n", 1)[1]
            print(f"{name}: {'same' if equal else 'DIFFERS'}")
            same = same and equal
        else:
            path.write_text(text)
            print(f"wrote {path}")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
