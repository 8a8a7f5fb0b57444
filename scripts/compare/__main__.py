#!/usr/bin/env python3
"""Compares dif with diffusers on one checkpoint, in one run on one machine: parity at every boundary, times, memory.

    python3 scripts/compare NAME --synth "--preset klein-4b --distilled" [--dif build/dif] [--out DOCUMENT.json]
    python3 scripts/compare NAME --model DIR --backend cpu --device cpu --size 128x128

Makes (or takes) a checkpoint and runs, one after the other: fresh processes of dif with an empty and with a kept cache,
requests to a resident dif, difflux2sample for the boundaries; diffusers eager, with other attention kernels, compiled,
in f32 as the judge, and as a fresh process; the machine's ceilings at the shapes of the model. Writes one document of
kind `comparison`; scripts/render-benchmarks makes the page. PEER_PYTHON names a Python with torch and diffusers (default:
this one). docs/benchmarks.md says what is measured.
"""
import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path[:0] = [str(HERE), str(HERE.parent)]
from benchmark.document import Numbers, head  # noqa: E402
from benchmark.runs import run_process, stop  # noqa: E402
from floor import Transformer, composite  # noqa: E402
from ours import DeviceWatch, Ours, read_whole, synthesise  # noqa: E402
from verdicts import judge  # noqa: E402

ROOT = HERE.parent.parent
START = time.monotonic()


def arguments():
    parser = argparse.ArgumentParser(prog="scripts/compare", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="of the run, such as klein-4b-distilled")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--model", type=Path, help="model folder in the diffusers layout")
    what.add_argument("--synth", metavar="OPTIONS", help="make one with `difweights synth OPTIONS`")
    parser.add_argument("--dif", type=Path, default=ROOT / "build/dif")
    parser.add_argument("--out", type=Path, default=ROOT / "build/compare/comparison.json")
    parser.add_argument("--scratch", type=Path, help="folder for checkpoint and pictures (default: a temporary one)")
    parser.add_argument("--backend", default="cuda")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"), help="the peer's")
    parser.add_argument("--dtype", default="bf16")
    parser.add_argument("--vae-dtype", default="bf16")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--dif-options", default="", help="more options of dif generate, such as '--passes none'; the boundaries are without them")
    parser.add_argument("--prompt", default="a red apple")
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--size", default="1024x1024")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--guidance", type=float, default=1.0)
    parser.add_argument("--text-tokens", type=int, default=512)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--processes", type=int, default=2, help="fresh processes of dif with a kept cache")
    parser.add_argument("--max-vram", metavar="CAP", help="also with so little device memory, such as 12GiB")
    parser.add_argument("--attention", default="_native_cudnn", help="the peer's other attention backends, by commas")
    parser.add_argument("--compile", default="batch1,batch2", help="batch sizes to compile the peer for; empty: none")
    parser.add_argument("--without-peer-process", action="store_true")
    parser.add_argument("--commit", help="of dif, where it does not lie in its repository")
    return parser.parse_args()


def say(text):
    print(f"compare: {time.monotonic() - START:6.1f} s  {text}", file=sys.stderr, flush=True)


def peer(script, *words):
    """What a script of this folder prints, run by the peer's Python."""
    python = os.environ.get("PEER_PYTHON", sys.executable)
    command = [python, str(HERE / script), *map(str, words)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        stop(command, done.returncode, "")
    return json.loads(done.stdout)


def device_facts(dif, backend):
    done = subprocess.run([str(dif), "difprobe", "--backend", backend, "--json"], capture_output=True, text=True)
    return json.loads(done.stdout).get("target", {}) if done.returncode == 0 else {}


def measure_ours(ours, options, scratch):
    found = {"first_process": ours.first_process()}
    say("a process with an empty cache")
    found["processes"] = [ours.process() for _ in range(options.processes)]
    say("processes with a kept cache")
    found["resident"] = ours.requests(options.runs + 1)
    say("requests")
    found["profile"] = ours.profile(min(3, options.runs))
    say("profile")
    if options.max_vram:
        found["streamed"] = ours.streamed(options.max_vram)
        say("with streamed weights")
    ours.boundaries(scratch / "boundaries")
    say("boundaries")
    return found


def measure_peer(model, request_file, options, scratch):
    watch = DeviceWatch()
    found, peak = watch.during(lambda: peer("peer.py", "measure", model, request_file, scratch / "boundaries", scratch))
    found["device_peak_mib_of_everything"] = peak
    if not options.without_peer_process:
        command = [os.environ.get("PEER_PYTHON", sys.executable), HERE / "peer.py", "process", model, request_file,
                   scratch / "peer.png"]
        run, peak = watch.during(lambda: run_process(command))
        found["process"] = {"wall_seconds": run["seconds"], "peak_mib": run["peak_mib"], "device_peak_mib": peak}
        say("diffusers as a process")
    return found


def compare(options, scratch, run):
    """Fills in `run`, part by part."""
    width, height = map(int, options.size.split("x"))
    request = {"prompt": options.prompt, "seed": options.seed, "width": width, "height": height, "steps": options.steps,
               "guidance": options.guidance, "text_tokens": options.text_tokens, "device": options.device,
               "runs": options.runs, "attention": list(filter(None, options.attention.split(","))),
               "compile": list(filter(None, options.compile.split(",")))}
    run.update({"name": options.name, "request": request, "dtype": options.dtype, "vae_dtype": options.vae_dtype})
    model = options.model and options.model.resolve()
    if options.synth is not None:
        model = scratch / "model"
        run["synth"] = {"options": options.synth, "seconds": synthesise(options.dif, model, shlex.split(options.synth))}
        say("checkpoint made")
    read_whole(model)
    say("files in the page cache")
    run.update(facts_of(model))
    request_file = scratch / "request.json"
    request_file.write_text(json.dumps(request))

    run["ours"] = measure_ours(Ours(options.dif, model, request, options, scratch), options, scratch)
    run["diffusers"] = measure_peer(model, request_file, options, scratch)
    transformer = Transformer(model, request, run["diffusers"]["guided"])
    shapes = scratch / "shapes.json"
    shapes.write_text(json.dumps({"device": options.device, "runs": 2 * options.runs,
                                  "linear": [list(shape) for shape in transformer.linear()],
                                  "attention": [list(transformer.attention())]}))
    run["ceilings"] = peer("ceilings.py", shapes, model)
    run["floor"] = composite(transformer, run["ceilings"])
    say("ceilings")


def facts_of(model):
    def config(part):
        return json.loads((model / part / "config.json").read_text())

    transformer, encoder = config("transformer"), config("text_encoder")
    blocks = (transformer["num_layers"], transformer["num_single_layers"])
    small = encoder["hidden_size"] < 1024
    return {"blocks": blocks, "hidden": transformer["num_attention_heads"] * transformer["attention_head_dim"],
            "small_encoder": small, "encoder_layers": min(27, encoder["num_hidden_layers"]),
            "whole_model": not small and blocks in ((5, 20), (8, 24)),
            "checkpoint_bytes": sum(path.stat().st_size for path in model.rglob("*.safetensors"))}


def main():
    options = arguments()
    options.dif = options.dif.resolve()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    command = "python3 scripts/compare " + shlex.join(sys.argv[1:])
    document = head(ROOT, "comparison", command, os.environ, dif=options.dif, commit=options.commit)
    document["target"] = device_facts(options.dif, options.backend)
    scratch = options.scratch or Path(tempfile.mkdtemp())
    scratch = scratch.resolve()
    scratch.mkdir(parents=True, exist_ok=True)
    run = document["run"] = {}
    try:
        compare(options, scratch, run)
    finally:  # what was measured before something failed is not lost
        options.out.write_text(json.dumps(document, indent=1) + "\n")
        if not options.scratch:
            shutil.rmtree(scratch)
    numbers = Numbers()
    judge(run, numbers)
    document["versions"] = run["diffusers"].pop("versions")
    document["numbers"] = numbers.rows
    options.out.write_text(json.dumps(document, indent=1) + "\n")
    for row in document["numbers"]:
        found = row["found"] if isinstance(row["found"], str) or row["found"] is None else f"{row['found']:.3g}"
        print(f"{row['verdict']:<13}{row['claim']}: {found} ({row['bound']}) {row['how']}".rstrip())
    print(options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
