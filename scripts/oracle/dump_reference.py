#!/usr/bin/env python3
"""Runs diffusers' Flux2KleinPipeline on a model folder and writes what goes in, what comes out and what is between.

    dump_reference.py MODEL -o FILE.safetensors [--prompt TEXT] [--seed N] [--steps N] [--guidance F] [--size WxH]
                      [--text-tokens N] [--dtype f32|bf16] [--threads N] [--boundaries] [--png FILE]

Tensors, named as in tests/fixtures/emoji-klein: input_ids, attention_mask, prompt_embeds (and negative_...),
initial_noise, initial_latents, sigmas, timesteps, mu, noise_pred_cond and noise_pred_uncond [1,S,C] of the first step,
latents_steps, final_latents, image, image_u8. --boundaries adds, under diffusers' module paths, the first output of
every module (".outN" where a module returns several tensors): text_encoder, transformer, vae. The run's settings and
the versions are in the file's metadata.
"""
import argparse
import json
import pathlib
import sys

import diffusers
import numpy as np
import safetensors.torch
import torch
import transformers

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


def arguments(argv=None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True)
    parser.add_argument("--prompt", default="red heart")
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--guidance", type=float, default=4.0)
    parser.add_argument("--size", default="96x64", help="WIDTHxHEIGHT")
    parser.add_argument("--text-tokens", type=int, default=64)
    parser.add_argument("--dtype", choices=DTYPES, default="f32")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--boundaries", action="store_true")
    parser.add_argument("--png", type=pathlib.Path)
    return parser.parse_args(argv)


class Recorder:
    """Keeps tensors by name; the first value of a name stays."""

    def __init__(self):
        self.tensors: dict[str, torch.Tensor] = {}

    def keep(self, name: str, value: torch.Tensor) -> None:
        if name not in self.tensors:
            self.tensors[name] = value.detach().to("cpu").clone().contiguous()

    def keep_output(self, name: str, output) -> None:
        if torch.is_tensor(output):
            self.keep(name, output)
        elif isinstance(output, (tuple, list)):
            for index, part in enumerate(output):
                if torch.is_tensor(part):
                    self.keep(f"{name}.out{index}", part)

    def watch(self, prefix: str, model: torch.nn.Module) -> None:
        for path, module in model.named_modules():
            if path:
                module.register_forward_hook(
                    lambda _module, _args, output, name=f"{prefix}.{path}": self.keep_output(name, output))


def record_text(pipe, recorder: Recorder) -> None:
    """The pipeline encodes the prompt first, then the empty negative prompt if guidance is on."""
    calls = []

    def hook(_module, args, kwargs):
        prefix = "negative_" if calls else ""
        calls.append(prefix)
        recorder.keep(prefix + "input_ids", kwargs["input_ids"])
        recorder.keep(prefix + "attention_mask", kwargs["attention_mask"])

    pipe.text_encoder.register_forward_pre_hook(hook, with_kwargs=True)


def record_transformer(pipe, recorder: Recorder) -> None:
    calls = []

    def hook(_module, _args, kwargs, output):
        index = len(calls)
        calls.append(index)
        if index == 0:
            recorder.keep("initial_latents", kwargs["hidden_states"])
            recorder.keep("prompt_embeds", kwargs["encoder_hidden_states"])
            recorder.keep("noise_pred_cond", output[0])
        elif index == 1 and pipe.do_classifier_free_guidance:
            recorder.keep("negative_prompt_embeds", kwargs["encoder_hidden_states"])
            recorder.keep("noise_pred_uncond", output[0])

    pipe.transformer.register_forward_hook(hook, with_kwargs=True)


def record_vae(pipe, recorder: Recorder) -> None:
    decode = pipe.vae.decode

    def recorded(latents, *args, **kwargs):
        recorder.keep("final_latents", latents)
        result = decode(latents, *args, **kwargs)
        recorder.keep("image", result[0])
        return result

    pipe.vae.decode = recorded


def run(options: argparse.Namespace) -> tuple[dict[str, torch.Tensor], dict[str, str], "object"]:
    torch.set_num_threads(options.threads)
    width, height = map(int, options.size.split("x"))
    dtype = DTYPES[options.dtype]
    pipe = diffusers.Flux2KleinPipeline.from_pretrained(options.model, torch_dtype=dtype)
    pipe.set_progress_bar_config(disable=True)
    recorder = Recorder()
    record_text(pipe, recorder)
    record_transformer(pipe, recorder)
    record_vae(pipe, recorder)
    if options.boundaries:
        for prefix in ("text_encoder", "transformer", "vae"):
            recorder.watch(prefix, getattr(pipe, prefix))

    factor = 2 * pipe.vae_scale_factor
    channels = pipe.transformer.config.in_channels
    rows, columns = height // factor, width // factor
    recorder.keep("initial_noise", torch.randn((1, channels, rows, columns), dtype=dtype,
                                               generator=torch.Generator("cpu").manual_seed(options.seed)))
    steps = []

    def after_step(_pipe, _index, _timestep, kwargs):
        steps.append(kwargs["latents"].clone())
        return kwargs

    image = pipe(prompt=options.prompt, width=width, height=height, num_inference_steps=options.steps,
                 guidance_scale=options.guidance, max_sequence_length=options.text_tokens,
                 generator=torch.Generator("cpu").manual_seed(options.seed), callback_on_step_end=after_step).images[0]
    recorder.keep("latents_steps", torch.cat(steps))
    recorder.keep("sigmas", pipe.scheduler.sigmas)
    recorder.keep("timesteps", pipe.scheduler.timesteps)
    mu = diffusers.pipelines.flux2.pipeline_flux2_klein.compute_empirical_mu(rows * columns, options.steps)
    recorder.keep("mu", torch.tensor([mu], dtype=torch.float64))
    recorder.keep("image_u8", torch.from_numpy(np.asarray(image).copy()))
    settings = {key: getattr(options, key) for key in
                ("prompt", "seed", "steps", "guidance", "size", "text_tokens", "dtype", "threads")}
    versions = {"torch": torch.__version__, "diffusers": diffusers.__version__,
                "transformers": transformers.__version__, "numpy": np.__version__}
    metadata = {"settings": json.dumps(settings), "versions": json.dumps(versions)}
    return recorder.tensors, metadata, image


def main(argv=None) -> int:
    options = arguments(argv)
    tensors, metadata, image = run(options)
    finite = all(bool(torch.isfinite(value).all()) for value in tensors.values() if value.is_floating_point())
    safetensors.torch.save_file(tensors, options.output, metadata=metadata)
    if options.png:
        image.save(options.png)
    print(f"{options.output}: {len(tensors)} tensors, {'all finite' if finite else 'NOT FINITE'}")
    return 0 if finite else 1


if __name__ == "__main__":
    sys.exit(main())
