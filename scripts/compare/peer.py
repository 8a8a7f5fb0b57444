#!/usr/bin/env python3
"""The other side of scripts/compare: Flux2KleinPipeline on the same files. Needs torch and diffusers, nothing of ours.

    peer.py measure MODEL REQUEST.json OURS SCRATCH    times, memory, and how far both sides are from diffusers in f32
    peer.py process MODEL REQUEST.json OUT.png         what a script does that draws one picture

REQUEST.json: prompt, seed, width, height, steps, guidance, text_tokens, device, runs, compile (of: batch1, batch2),
attention (backends to try beside the default). OURS is a folder with state.safetensors of difflux2sample (every step
captured) and picture.png. Prints one JSON document.
"""
import contextlib
import json
import sys
import time
from pathlib import Path

START = time.monotonic()
import diffusers  # noqa: E402
import numpy as np  # noqa: E402
import safetensors.torch  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from PIL import Image  # noqa: E402

from clock import Device  # noqa: E402

IMPORTED = time.monotonic()


def say(text):
    print(f"peer: {time.monotonic() - START:6.1f} s  {text}", file=sys.stderr, flush=True)


def load(model, device, dtype=torch.bfloat16):
    pipe = diffusers.Flux2KleinPipeline.from_pretrained(model, torch_dtype=dtype)
    pipe.to(device.name)
    pipe.set_progress_bar_config(disable=True)
    return pipe


def noise(pipe, request):
    """Drawn in f32 whatever the pipeline's dtype, as ours is."""
    side = 2 * pipe.vae_scale_factor
    shape = (1, pipe.transformer.config.in_channels, request["height"] // side, request["width"] // side)
    return torch.randn(shape, generator=torch.Generator("cpu").manual_seed(request["seed"]))


def draw(pipe, request, latents, **more):
    return pipe(prompt=request["prompt"], width=request["width"], height=request["height"],
                num_inference_steps=request["steps"], guidance_scale=request["guidance"],
                max_sequence_length=request["text_tokens"], latents=latents, **more).images[0]


class Recorder:
    """The boundaries of one picture: prompt embeddings, velocity and latents of each step, pixels."""

    def __init__(self, pipe, request):
        self.pipe, self.request = pipe, request
        self.calls, self.latents, self.arguments = [], [], None

    def _before(self, _module, _args, kwargs):
        if self.arguments is None:
            self.arguments = {key: value.clone() if torch.is_tensor(value) else value for key, value in kwargs.items()}
        self.calls.append([kwargs["encoder_hidden_states"], None])

    def _after(self, _module, _args, _kwargs, output):
        self.calls[-1][1] = output[0].clone()

    def _step(self, _pipe, _index, _timestep, kwargs):
        self.latents.append(kwargs["latents"].clone())
        return kwargs

    def record(self):
        hooks = [self.pipe.transformer.register_forward_pre_hook(self._before, with_kwargs=True),
                 self.pipe.transformer.register_forward_hook(self._after, with_kwargs=True)]
        image = draw(self.pipe, self.request, noise(self.pipe, self.request), callback_on_step_end=self._step)
        for hook in hooks:
            hook.remove()
        self.guided = len(self.calls) == 2 * self.request["steps"]
        per_step = 2 if self.guided else 1
        first = self.calls[:per_step]
        found = {"prompt_embeds": first[0][0]}
        if self.guided:
            found["negative_prompt_embeds"] = first[1][0]
        for step in range(self.request["steps"]):
            velocity = self.calls[step * per_step][1]
            if self.guided:
                uncond = self.calls[step * per_step + 1][1]
                velocity = uncond + self.request["guidance"] * (velocity - uncond)
            found[f"velocity of step {step}"] = velocity
            found[f"latents after step {step}"] = self.latents[step]
        found["picture"] = torch.from_numpy(np.asarray(image).copy()).to(velocity.device)
        return {name: value.double() for name, value in found.items()}


def read_ours(folder, sigmas, device):
    """The same boundaries from difflux2sample's state. A velocity is the latents' move over the schedule's."""
    state = {name: value.to(device.name) for name, value in
             safetensors.torch.load_file(folder / "state.safetensors").items()}
    found = {name: state[name].double() for name in ("prompt_embeds", "negative_prompt_embeds") if name in state}
    before = state["initial_latents"].double()
    for step, latents in enumerate(state["latents_steps"].double()):
        after = latents.unsqueeze(0)
        found[f"velocity of step {step}"] = (after - before) / (sigmas[step + 1] - sigmas[step]).double()
        found[f"latents after step {step}"] = after
        before = after
    picture = np.asarray(Image.open(folder / "picture.png").convert("RGB"))
    found["picture"] = torch.from_numpy(picture.copy()).to(device.name).double()
    return found


def relative_l2(found, reference):
    return float((found - reference).norm() / reference.norm())


def distances(reference, ours, theirs):
    """How far both sides are from the reference, boundary by boundary."""
    rows = []
    for name, right in reference.items():
        row = {"boundary": name}
        for side, values in (("ours", ours), ("diffusers_bf16", theirs)):
            if name not in values or values[name].shape != right.shape:
                raise SystemExit(f"peer: {name}: {side} has {getattr(values.get(name), 'shape', None)}, "
                                 f"expected {tuple(right.shape)}")
            if name == "picture":
                off = (values[name] - right).abs()
                row[side] = {"largest_levels": float(off.max()), "mean_levels": float(off.mean())}
            else:
                row[side] = relative_l2(values[name], right)
        rows.append(row)
    return rows


def batch_of_two(arguments):
    return {key: torch.cat([value, value]) if torch.is_tensor(value) else value for key, value in arguments.items()}


def step_times(pipe, arguments, request, device, guided):
    """Milliseconds of one evaluation, and of two in one batch where guidance asks for two."""
    def run(kwargs):
        with torch.no_grad():
            pipe.transformer(**kwargs)

    times = {"batch1": device.median(lambda: run(arguments), request["runs"])}
    if guided:
        two = batch_of_two(arguments)
        times["batch2"] = device.median(lambda: run(two), request["runs"])
        times["step"] = min(2 * times["batch1"], times["batch2"])
    else:
        times["step"] = times["batch1"]
    return times


def encode_times(pipe, request, device):
    with torch.no_grad():
        whole = device.median(lambda: pipe.encode_prompt(request["prompt"], max_sequence_length=request["text_tokens"]),
                              request["runs"])
    # Hugging Face's hidden states need every layer, whichever are read.
    return {"encode": whole, "layers_run": pipe.text_encoder.config.num_hidden_layers}


def decode_time(pipe, request, device):
    vae = pipe.vae
    side = pipe.vae_scale_factor
    shape = (1, vae.config.latent_channels, request["height"] // side, request["width"] // side)
    latents = torch.randn(shape, generator=torch.Generator("cpu").manual_seed(1)).to(device.name, vae.dtype)
    with torch.no_grad():
        return device.median(lambda: vae.decode(latents, return_dict=False), request["runs"])


def request_times(pipe, request, device, out):
    """Whole requests, prompt to file, with the model loaded."""
    seconds = []
    for _ in range(request["runs"] + 1):
        begin = time.monotonic()
        draw(pipe, request, None, generator=torch.Generator("cpu").manual_seed(request["seed"])).save(out)
        seconds.append(time.monotonic() - begin)
    return seconds[1:]


def compiled_times(pipe, arguments, request, device, guided):
    """torch.compile of the repeated blocks, each batch size on its own."""
    found = {}
    for batch in request["compile"]:
        if batch == "batch2" and not guided:
            continue
        kwargs = batch_of_two(arguments) if batch == "batch2" else arguments
        torch._dynamo.reset()
        begin = time.monotonic()
        pipe.transformer.compile_repeated_blocks(fullgraph=True, dynamic=False)
        with torch.no_grad():
            pipe.transformer(**kwargs)
            device.wait()
            found[f"{batch}_compile_seconds"] = time.monotonic() - begin
            found[batch] = device.median(lambda: pipe.transformer(**kwargs), request["runs"])
        say(f"compiled {batch}: {found[batch]:.2f} ms")
    steps = [found[batch] * (2 if guided and batch == "batch1" else 1) for batch in ("batch1", "batch2") if batch in found]
    if steps:
        found["step"] = min(steps)
    return found


def measure(model, request, ours, scratch):
    device = Device(request["device"])
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    begin = time.monotonic()
    pipe = load(model, device)
    device.wait()
    result = {"import_seconds": IMPORTED - START, "load_seconds": time.monotonic() - begin}
    say("loaded")
    device.reset_peak()
    recorder = Recorder(pipe, request)
    theirs = recorder.record()
    arguments, guided = recorder.arguments, recorder.guided
    result["peak"] = device.peak()
    say("a picture in bf16")
    result["eager"] = {"native": step_times(pipe, arguments, request, device, guided)}
    result["encode"] = encode_times(pipe, request, device)
    result["decode"] = decode_time(pipe, request, device)
    result["requests"] = request_times(pipe, request, device, scratch / "peer.png")
    say("eager times")
    for backend in request["attention"]:
        pipe.transformer.set_attention_backend(backend)
        result["eager"][backend] = step_times(pipe, arguments, request, device, guided)
        pipe.transformer.set_attention_backend("native")
    best = min(result["eager"], key=lambda name: result["eager"][name]["step"])
    result["best_attention"] = best
    say(f"attention: {best}")

    pipe.to(torch.float32)
    reference = Recorder(pipe, request).record()
    pipe.to(torch.bfloat16)  # exact: every weight came from bf16
    result["parity"] = distances(reference, read_ours(ours, pipe.scheduler.sigmas, device), theirs)
    say("parity against f32")
    del reference, theirs
    device.reset_peak()
    if request["compile"]:
        pipe.transformer.set_attention_backend(best)
        result["compiled"] = {"attention": best, **compiled_times(pipe, arguments, request, device, guided)}
    result["guided"] = guided
    result["versions"] = versions(device)
    return result


def versions(device):
    found = {"torch": torch.__version__, "diffusers": diffusers.__version__, "transformers": transformers.__version__,
             "python": sys.version.split()[0]}
    if device.is_cuda:
        found["CUDA of torch"], found["cuDNN of torch"] = torch.version.cuda, str(torch.backends.cudnn.version())
    return found


def process(model, request, out):
    device = Device(request["device"])
    pipe = load(model, device)
    draw(pipe, request, None, generator=torch.Generator("cpu").manual_seed(request["seed"])).save(out)
    return {"seconds": time.monotonic() - START}


def main():
    mode, model, request = sys.argv[1], sys.argv[2], json.loads(Path(sys.argv[3]).read_text())
    with contextlib.redirect_stdout(sys.stderr):
        if mode == "measure":
            found = measure(model, request, Path(sys.argv[4]), Path(sys.argv[5]))
        else:
            found = process(model, request, sys.argv[4])
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
