#!/usr/bin/env python3
"""Writes the table of values that torch.randn draws on a CUDA card, for the unit tests of src/pipelines.

    make_cuda_noise_table.py FILE

Runs where PyTorch has a GPU; the card's multiprocessors and threads are part of the table. The committed file is
src/pipelines/noise_cuda_test_table.h.
"""
import pathlib
import struct
import sys

import torch

SEEDS = (0, 42, 2**32 + 5, 2**64 - 1)


def sizes(grid):
    """Draws of one generator, one after the other: part of a block, of the grid, one pass and more than one."""
    return (1, 3, 255, 257, 1000, 65536, grid - 1, 4 * grid, 4 * grid + 1, 9 * grid + 77, 5)


def indices(size, grid):
    wanted = {0, 1, 2, 255, 256, 257, size // 2, size - 2, size - 1}
    for k in (1, 2, 3, 4, 5, 8):
        wanted |= {k * grid - 1, k * grid, k * grid + 3}
    return sorted(i for i in wanted if 0 <= i < size)


def main() -> int:
    card = torch.cuda.get_device_properties(0)
    threads = card.max_threads_per_multi_processor
    grid = card.multi_processor_count * (threads // 256) * 256
    rows = []
    for seed in SEEDS:
        generator = torch.Generator("cuda").manual_seed(seed)
        # The large draws take their time in a test: one seed is enough for them.
        for draw, size in enumerate(sizes(grid)[:None if seed == 42 else 7]):
            values = torch.randn(size, generator=generator, device="cuda").cpu()
            for index in indices(size, grid):
                bits, = struct.unpack("<I", struct.pack("<f", values[index].item()))
                rows.append(f"    {{{seed}ULL, {draw}, {index}, 0x{bits:08x}}},")
    listed = ", ".join(map(str, sizes(grid)))
    pathlib.Path(sys.argv[1]).write_text(
        f"// Made by scripts/oracle/make_cuda_noise_table.py with torch {torch.__version__} on an {card.name}. Do not edit.\n"
        "// clang-format off\n#pragma once\n\n#include <array>\n#include <cstddef>\n#include <cstdint>\n\n"
        "namespace dif::test {\n\n"
        f"inline constexpr int kCudaMultiprocessors = {card.multi_processor_count};\n"
        f"inline constexpr int kCudaThreads = {threads};\n"
        "/// Draws of one generator, in this order.\n"
        f"inline constexpr std::array<std::size_t, {len(sizes(grid))}> kCudaSizes = {{{listed}}};\n\n"
        "struct CudaValue {\n  std::uint64_t seed;\n  std::size_t draw, index;\n  std::uint32_t bits;  ///< of the f32\n};\n"
        f"inline constexpr std::array<CudaValue, {len(rows)}> kCudaValues = {{{{\n" + "\n".join(rows) + "\n}};\n\n"
        "}  // namespace dif::test\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
