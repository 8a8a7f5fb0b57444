#!/usr/bin/env python3
"""What the machine can do at the shapes of a model: products, attention, copies, uploads, reads of the page cache.

    ceilings.py SHAPES.json MODEL

SHAPES.json: {"device", "runs", "linear": [[m, k, n], ...], "attention": [[batch, rows, heads, width], ...]}. bf16 through
torch (cuBLAS, cuDNN), random numbers, median of several calls. Prints one JSON document.
"""
import json
import os
import sys
import threading
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from clock import Device

PIECE = 4 << 20
MIB = 2**20


def products(device, shapes, runs):
    rows = []
    for m, k, n in shapes:
        a = torch.randn(m, k, device=device.name, dtype=torch.bfloat16)
        b = torch.randn(n, k, device=device.name, dtype=torch.bfloat16)
        out = torch.empty(m, n, device=device.name, dtype=torch.bfloat16)
        ms = device.median(lambda: torch.matmul(a, b.t(), out=out), runs, warm=3)
        rows.append({"m": m, "k": k, "n": n, "ms": ms, "tflops": 2 * m * k * n / ms / 1e9})
    return rows


def attentions(device, shapes, runs):
    rows = []
    backends = [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION] if device.is_cuda else [SDPBackend.MATH]
    for batch, tokens, heads, width in shapes:
        q, k, v = (torch.randn(batch, heads, tokens, width, device=device.name, dtype=torch.bfloat16) for _ in range(3))
        best = None
        for backend in backends:
            try:
                with sdpa_kernel(backend):
                    ms = device.median(lambda: F.scaled_dot_product_attention(q, k, v), runs, warm=3)
            except RuntimeError:
                continue  # this one does not serve the shape
            if best is None or ms < best["ms"]:
                best = {"ms": ms, "kernel": backend.name}
        rows.append({"batch": batch, "rows": tokens, "heads": heads, "width": width, **best,
                     "tflops": 4 * batch * tokens * tokens * heads * width / best["ms"] / 1e9})
    return rows


def copies(device, runs):
    """Gigabytes a second, read and written counted."""
    found = {}
    for mib in (24, 75, 300, 1024) if device.is_cuda else (64,):
        a = torch.randn(mib * MIB // 4, device=device.name)
        b = torch.empty_like(a)
        found[f"{mib} MiB"] = 2 * mib * MIB / device.median(lambda: b.copy_(a), runs) / 1e6
    return found


def upload(device, runs):
    if not device.is_cuda:
        return None
    host = torch.empty(256 * MIB, dtype=torch.uint8).pin_memory()
    there = torch.empty(256 * MIB, dtype=torch.uint8, device=device.name)
    return 256 * MIB / device.median(lambda: there.copy_(host, non_blocking=True), runs) / 1e6


def page_cache(model, threads):
    """Gigabytes a second of reading the checkpoint's files once more, by several threads into memory of their own: the
    best of three passes."""
    files = {path: os.open(path, os.O_RDONLY) for path in sorted(Path(model).rglob("*.safetensors"))}
    buffers = [bytearray(PIECE) for _ in range(threads)]
    passes = [read_once(files, buffers) for _ in range(3)]
    for handle in files.values():
        os.close(handle)
    return {**max(passes, key=lambda one: one["gb_per_second"]), "threads": threads}


def read_once(files, buffers):
    pieces = [(handle, at) for path, handle in files.items() for at in range(0, path.stat().st_size, PIECE)]
    lock, total = threading.Lock(), [0]

    def work(buffer):
        while True:
            with lock:
                if not pieces:
                    break
                handle, at = pieces.pop()
            read = os.preadv(handle, [buffer], at)
            with lock:
                total[0] += read

    workers = [threading.Thread(target=work, args=[buffer]) for buffer in buffers]
    begin = time.monotonic()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return {"gb_per_second": total[0] / (time.monotonic() - begin) / 1e9, "bytes": total[0]}


def main():
    shapes = json.loads(Path(sys.argv[1]).read_text())
    device, runs = Device(shapes["device"]), shapes["runs"]
    print(json.dumps({
        "linear": products(device, shapes["linear"], runs),
        "attention": attentions(device, shapes["attention"], runs),
        "copy_gb_per_second": copies(device, runs),
        "upload_gb_per_second": upload(device, runs),
        "page_cache": page_cache(sys.argv[2], min(16, len(os.sched_getaffinity(0)))),
    }))
    return 0


if __name__ == "__main__":
    sys.exit(main())
