#!/usr/bin/env python3
"""Answers the requests of bench/picture_loop with diffusers on the CPU.

    diffusers_loop.py MODEL_DIR THREADS [float32|bfloat16]

A request a line on stdin, an answer a line on stdout: {"seconds": S, "setup_seconds": 0}. The first line says which
versions answer. OUT.latents and OUT.rgb get the final latents (f32, packed) and the pixels, OUT.initial the noise.
"""
import json
import sys
import time

start = time.monotonic()
import diffusers  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402


def draw(pipe, request: dict) -> tuple[torch.Tensor, "object", float]:
    kept = {}

    def keep(_pipe, _index, _timestep, kwargs):
        kept["latents"] = kwargs["latents"]
        return kwargs

    begin = time.monotonic()
    image = pipe(prompt=request["prompt"], width=request["width"], height=request["height"],
                 num_inference_steps=request["steps"], guidance_scale=request["guidance"],
                 max_sequence_length=request["text_tokens"], callback_on_step_end=keep,
                 generator=torch.Generator("cpu").manual_seed(request["seed"])).images[0]
    return kept["latents"], image, time.monotonic() - begin


def initial_noise(pipe, request: dict) -> torch.Tensor:
    """What the pipeline starts from, packed."""
    side = 2 * pipe.vae_scale_factor
    shape = (1, pipe.transformer.config.in_channels, request["height"] // side, request["width"] // side)
    noise = torch.randn(shape, generator=torch.Generator("cpu").manual_seed(request["seed"]))
    return noise.flatten(2).transpose(1, 2).contiguous()


def main() -> int:
    folder, threads = sys.argv[1], int(sys.argv[2])
    dtype = sys.argv[3] if len(sys.argv) > 3 else "float32"
    torch.set_num_threads(threads)
    pipe = diffusers.Flux2KleinPipeline.from_pretrained(folder, torch_dtype=getattr(torch, dtype))
    pipe.set_progress_bar_config(disable=True)
    versions = {"torch": torch.__version__, "diffusers": diffusers.__version__,
                "transformers": transformers.__version__, "python": sys.version.split()[0]}
    print(json.dumps({"ready": True, "load_seconds": time.monotonic() - start, "versions": versions}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        latents, image, seconds = draw(pipe, request)
        if request.get("out"):
            latents.to(torch.float32).numpy().tofile(request["out"] + ".latents")
            initial_noise(pipe, request).numpy().tofile(request["out"] + ".initial")
            np.asarray(image).tofile(request["out"] + ".rgb")
        print(json.dumps({"seconds": seconds, "setup_seconds": 0}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
