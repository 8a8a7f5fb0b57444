"""What is measured: the bundled model's picture, a wide synthetic model, single kernels."""
import json
import os
import shutil
import statistics
from pathlib import Path

from . import files
from .document import features
from .runs import Loop, alternate, median, output_of, run_process, works

MIB = 2**20
HEADROOM_MIB = 96
FIXTURES = "tests/fixtures/emoji-klein"
DIFFUSERS_LOOP = Path(__file__).with_name("diffusers_loop.py")


class Bench:
    """Where things are, and how often they run."""

    def __init__(self, root, scratch, threads, runs, python):
        self.root, self.scratch, self.threads, self.runs, self.python = root, Path(scratch), threads, runs, python
        self.build = root / "build"
        self.dif = self.build / "dif"
        import os
        # The same for both sides; dif is also told with --threads.
        self.environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "DIF_CACHE_DIR": str(self.scratch / "cache")}

    def generate(self, prompt, out, *options):
        dtype = [] if "--dtype" in options else ["--dtype", "f32"]
        return [self.dif, "generate", prompt, "--threads", self.threads, "-q", "-o", self.scratch / f"{out}.png", *dtype,
                *options]

    def loops(self, model):
        """{name: resident process}: ours, and diffusers' where there is one."""
        loops = {"dif": Loop([self.build / "picture_loop", model, self.threads], self.environment)}
        if self.python:
            loops["diffusers"] = Loop([self.python, DIFFUSERS_LOOP, model, self.threads], self.environment)
        return loops

    def ceilings(self, model, request):
        return json.loads(output_of([self.build / "chain_ceilings", model, json.dumps(request)], self.environment))

    def whole_process(self, request, model=None):
        """{name: run of one whole process}."""
        where = ["--model", model] if model else []
        ours = self.generate(request["prompt"], "process", "--seed", request["seed"], *options_of(request), *where)
        competitors = {"dif": lambda: run_process(ours, environment=self.environment)}
        if self.python:
            loop = [self.python, DIFFUSERS_LOOP, model or self.root / "models/emoji-klein", self.threads]
            one = {**request, "out": str(self.scratch / "process")}
            competitors["diffusers"] = lambda: run_process(loop, one, self.environment)
            if "avx512_bf16" in features():  # where --dtype auto is bf16
                competitors["diffusers-bf16"] = lambda: run_process([*loop, "bfloat16"], one, self.environment)
        return competitors

    def memory(self, request, model):
        """Peak of one process beside what its report says was planned, in MiB."""
        report = self.scratch / "report.json"
        command = self.generate(request["prompt"], "memory", "--model", model, *options_of(request), "--report", report)
        peak = run_process(command, environment=self.environment)["peak_mib"]
        document = json.loads(report.read_text())
        mapped = sum(path.stat().st_size for path in Path(model).rglob("*.safetensors"))
        arena, prepacked = planned_bytes(document)
        return {"peak_mib": peak, "mapped_mib": mapped / MIB, "arena_mib": arena / MIB, "prepacked_mib": prepacked / MIB,
                "bound_mib": (mapped + arena + prepacked) / MIB + HEADROOM_MIB,
                "stages": {stage["stage"]: stage["seconds"] for stage in document["stages"]}}


def planned_bytes(document):
    """The arena that the chain's programs take turns with, with its scratch, and the weights that are prepacked at the
    worst moment: the encoder's are given back before the step's and the decoder's are made."""
    encode = [program["prepacked_bytes"] for program in document["programs"] if program["name"].startswith("encode")]
    others = [program["prepacked_bytes"] for program in document["programs"] if not program["name"].startswith("encode")]
    memory = document["memory"]
    arena = memory["arena_bytes"]["predicted"] + memory["workspace_bytes"]["predicted"]
    return arena, max(sum(encode), sum(others))


def options_of(request):
    return ["--size", f"{request['width']}x{request['height']}", "--steps", request["steps"], "--guidance",
            request["guidance"], "--text-tokens", request["text_tokens"]]


def parity(bench, name):
    """How far our last picture NAME-dif is from NAME-diffusers."""
    ours, theirs = bench.scratch / f"{name}-dif", bench.scratch / f"{name}-diffusers"
    most, differing = files.levels(ours.with_name(ours.name + ".rgb").read_bytes(),
                                   theirs.with_name(theirs.name + ".rgb").read_bytes())
    return {"latents_relative_l2": files.relative_l2(files.read_floats(f"{ours}.latents"),
                                                     files.read_floats(f"{theirs}.latents")),
            "picture_levels": most, "picture_values_that_differ": differing}


def denoiser_error(bench, name):
    """Of the denoiser's output, from a one-step run: it takes sigma from 1 to 0, so the output is noise - latents."""
    noise = files.read_floats(bench.scratch / f"{name}-diffusers.initial")

    def output(of):
        latents = files.read_floats(bench.scratch / f"{name}-{of}.latents")
        return [a - b for a, b in zip(noise, latents)]

    return files.relative_l2(output("dif"), output("diffusers"))


def draw_by_turns(bench, loops, request, name, runs):
    """Each loop draws `request` once to warm up and then `runs` times, by turns."""
    for of, loop in loops.items():
        loop.draw({**request, "out": str(bench.scratch / f"{name}-{of}")})
    return alternate(runs, {of: (lambda loop=loop: loop.draw(request)) for of, loop in loops.items()})


# --- the bundled model ------------------------------------------------------------------------------------------------

PICTURE = {"prompt": "a red apple", "seed": 42, "width": 128, "height": 128, "steps": 20, "guidance": 4.0,
           "text_tokens": 512}


def picture(bench, numbers, with_grids=True):
    model = bench.root / "models/emoji-klein"
    loops = bench.loops(model)
    result = {"request": PICTURE, "in_process": draw_by_turns(bench, loops, PICTURE, "picture", bench.runs)}
    versions = {} if "diffusers" not in loops else loops["diffusers"].hello["versions"]
    if "diffusers" in loops:
        result["parity"] = parity(bench, "picture")
    for loop in loops.values():
        loop.close()
    competitors = bench.whole_process(PICTURE)
    competitors["dif-64-tokens"] = bench.whole_process({**PICTURE, "text_tokens": 64})["dif"]
    if works(bench.generate("x", "probe", "--dtype", "auto", "--steps", 1), bench.environment):
        auto = bench.generate(PICTURE["prompt"], "auto", "--dtype", "auto")
        competitors["dif-auto"] = lambda: run_process(auto, environment=bench.environment)
    for run in competitors.values():
        run()  # not counted: warms the page cache
    result["process"] = alternate(bench.runs, competitors)
    result["ceilings"] = bench.ceilings(model, PICTURE)
    result["memory"] = bench.memory(PICTURE, model)
    judge_picture(result, numbers)
    judge_bytes(bench, numbers)
    if with_grids:
        judge_grids(bench, numbers, "dif-auto" in competitors)
    judge_bf16(bench, numbers, "dif-auto" in competitors)
    return result, versions


# (diffusers' process, ours, claim)
WHOLE_PROCESS = (("diffusers", "dif", "diffusers / dif, whole process, f32"),
                 ("diffusers", "dif-auto", "diffusers in f32 / dif --dtype auto, whole process"),
                 ("diffusers-bf16", "dif-auto", "diffusers in bf16 / dif --dtype auto, whole process"))


def judge_picture(result, numbers):
    wall = {name: median(runs) for name, runs in result["process"].items()}
    inside = {name: median(runs) for name, runs in result["in_process"].items()}
    ceilings, floor = result["ceilings"], result["ceilings"]["floor_seconds"]
    wide = "avx512f" in features()
    numbers.at_most("wall of the bundled default / composite floor", wall["dif"] / floor, 1.7,
                    f"{wall['dif']:.2f} s whole process, floor {floor:.2f} s "
                    f"(in process {inside['dif']:.2f} s, {inside['dif'] / floor:.2f})")
    for claim, name, bound in (("wall of the bundled default, f32, seconds", "dif", 2.0),
                               ("wall of the bundled default, --dtype auto, seconds", "dif-auto", 1.3)):
        if not wide:
            numbers.missing(claim, f"< {bound:g}", "this machine has no AVX-512")
        elif name not in wall:
            numbers.missing(claim, f"< {bound:g}", "this build has no --dtype auto")
        else:
            numbers.below(claim, wall[name], bound, "median of whole processes")
    if "diffusers" in inside:
        numbers.at_least("diffusers / dif, in process", inside["diffusers"] / inside["dif"], 1.5,
                         f"{inside['diffusers']:.2f} s and {inside['dif']:.2f} s")
        for theirs, ours, claim in WHOLE_PROCESS:
            if theirs not in wall or ours not in wall:
                continue
            how = f"{wall[theirs]:.2f} s and {wall[ours]:.2f} s"
            if ours == "dif":
                how += f"; a process of nothing but the floor would have {wall[theirs] / floor:.2f}"
            numbers.at_least(claim, wall[theirs] / wall[ours], 8, how)
        numbers.at_most("final latents against diffusers, relative L2", result["parity"]["latents_relative_l2"], 2e-5)
        numbers.at_most("picture against diffusers, levels of 255", result["parity"]["picture_levels"], 1)
    else:
        for claim, bound in (("diffusers / dif, in process", ">= 1.5"), *((claim, ">= 8") for _, _, claim in WHOLE_PROCESS)):
            numbers.missing(claim, bound, "BENCH_PYTHON names no Python with diffusers")
    numbers.at_least("our products / bare dnnl::matmul, the picture's shapes", ceilings["our_gemm_share"], 0.9,
                     f"bare: {ceilings['gemm_flops_per_second'] / 1e9:.0f} GFLOP/s")
    numbers.at_least("attention / rate of products, the picture's shapes", ceilings["attention_share"], 0.5)
    numbers.at_least("time of 512 / 64 text tokens, whole process", wall["dif"] / wall["dif-64-tokens"], 3,
                     f"{wall['dif']:.2f} s and {wall['dif-64-tokens']:.2f} s")
    memory = result["memory"]
    numbers.at_most("peak RSS / (checkpoint + arena + prepacked + 96 MiB), bundled model",
                    memory["peak_mib"] / memory["bound_mib"], 1,
                    f"{memory['peak_mib']:.0f} MiB; {memory['mapped_mib']:.0f} + {memory['arena_mib']:.0f} + "
                    f"{memory['prepacked_mib']:.0f} + {HEADROOM_MIB} MiB")


def judge_bytes(bench, numbers):
    """The same latents and picture for 1, 2 and 4 threads."""
    found = set()
    for threads in (1, 2, 4):
        png, latents = bench.scratch / f"t{threads}.png", bench.scratch / f"t{threads}.diftensor"
        run_process([bench.dif, "generate", PICTURE["prompt"], "--threads", threads, "--dtype", "f32", "-q", "-o", png,
                     "--save-latents", latents], environment=bench.environment)
        found.add((png.read_bytes(), latents.read_bytes()))
    numbers.holds("the same bytes for 1, 2 and 4 threads", len(found) == 1)


def judge_grids(bench, numbers, has_auto):
    """Each prompt's picture must be nearest to its own cell among the 24 that diffusers drew in f32."""
    variants = {"--text-tokens 64: pictures nearest to their own of the 24-prompt grid": ["--text-tokens", 64]}
    claim = "--dtype auto: pictures nearest to their own of the 24-prompt grid"
    if has_auto:
        variants[claim] = ["--dtype", "auto"]
    else:
        numbers.missing(claim, "24 of 24", "this build has no --dtype auto")
    prompts = json.loads((bench.root / FIXTURES / "fixtures.json").read_text())["grid_prompts"]
    cells = files.grid_cells(bench.root / FIXTURES / "grid.png", len(prompts))
    for claim, options in variants.items():
        right, wrong = 0, []
        for i, prompt in enumerate(prompts):
            run_process(bench.generate(prompt, "grid", "--seed", 100 + i, *options), environment=bench.environment)
            if files.nearest(files.thumbnail(*files.read_png(bench.scratch / "grid.png")), cells) == i:
                right += 1
            else:
                wrong.append(prompt)
        numbers.all_of(claim, right, len(prompts), ", ".join(wrong))


def judge_bf16(bench, numbers, has_auto):
    """Our error against diffusers in f32, beside that of diffusers in bf16."""
    claim = "bf16 error / diffusers-bf16's, final latents"
    if not has_auto or not {"avx512_bf16", "amx_bf16"} & set(features()):
        numbers.missing(claim, "<= 1.2", "no bf16 arithmetic on this machine or in this build")
        return
    cases = json.loads((bench.root / FIXTURES / "more.json").read_text())["bf16"]["cases"]
    for case in cases:
        if not (bench.root / FIXTURES / f"{case['name']}.safetensors").is_file():
            continue
        values, shape = files.read_safetensors(bench.root / FIXTURES / f"{case['name']}.safetensors", "latents_steps")
        latents = bench.scratch / "bf16.diftensor"
        run_process(bench.generate(case["prompt"], "bf16", "--seed", case["seed"], "--steps", case["steps"],
                                   "--guidance", case["guidance"], "--dtype", "auto", "--save-latents", latents),
                    environment=bench.environment)
        error = files.relative_l2(files.read_diftensor(latents), values[-shape[1] * shape[2]:])
        numbers.at_most(f"{claim}, {case['name']}", error / case["latents_rel_l2"], 1.2,
                        f"{error:.2g} and {case['latents_rel_l2']:.2g}")


# --- klein 4B's width ---------------------------------------------------------------------------------------------------

WIDE = {"prompt": "a red apple", "seed": 42, "width": 256, "height": 256, "steps": 4, "guidance": 1.0, "text_tokens": 512}


def wide(bench, numbers):
    model = bench.scratch / "wide"
    output_of([bench.build / "difweights", "synth", "--preset", "klein-4b", "--blocks", "2,2", "--small-encoder", "-q", model])
    loops = bench.loops(model)
    result = {"request": WIDE, "in_process": draw_by_turns(bench, loops, WIDE, "wide", max(1, bench.runs // 2))}
    if "diffusers" in loops:
        result["parity"] = parity(bench, "wide")
        one_step = {**WIDE, "steps": 1}
        draw_by_turns(bench, loops, one_step, "wide-step", 0)
        result["parity"]["denoiser_relative_l2"] = denoiser_error(bench, "wide-step")
    for loop in loops.values():
        loop.close()
    result["ceilings"] = bench.ceilings(model, WIDE)
    result["memory"] = bench.memory(WIDE, model)
    shutil.rmtree(model)
    judge_wide(result, numbers)
    return result


def judge_wide(result, numbers):
    what = "klein 4B's width, 2 + 2 blocks"
    if "parity" in result:
        numbers.at_most(f"{what}: denoiser's output against diffusers, relative L2",
                        result["parity"]["denoiser_relative_l2"], 5e-6)
        numbers.at_most(f"{what}: final latents against diffusers, relative L2",
                        result["parity"]["latents_relative_l2"], 5e-6)
    else:
        numbers.missing(f"{what}: agreement with diffusers, relative L2", "<= 5e-06",
                        "BENCH_PYTHON names no Python with diffusers")
    ceilings = result["ceilings"]
    seconds = statistics.median(run["stages"]["denoise"] for run in result["in_process"]["dif"])
    achieved = ceilings["program_flops"]["step"] * WIDE["steps"] / seconds
    result["denoiser_flops_per_second"] = achieved
    numbers.at_least(f"{what}: FLOP/s of the whole denoiser / rate of bare products",
                     achieved / ceilings["gemm_flops_per_second"], 0.85,
                     f"{achieved / 1e9:.0f} and {ceilings['gemm_flops_per_second'] / 1e9:.0f} GFLOP/s; "
                     f"products alone {ceilings['our_gemm_share']:.2f}")
    memory = result["memory"]
    numbers.at_most(f"{what}: peak RSS / (checkpoint + arena + prepacked + 96 MiB)", memory["peak_mib"] / memory["bound_mib"], 1,
                    f"{memory['peak_mib']:.0f} MiB; {memory['mapped_mib']:.0f} + {memory['arena_mib']:.0f} + "
                    f"{memory['prepacked_mib']:.0f} + {HEADROOM_MIB} MiB")


# --- single kernels -----------------------------------------------------------------------------------------------------

# Below this size a copy runs in the caches, and the cost of starting threads is most of what is seen.
LARGE_BYTES = 8 * MIB


def kernels(bench, numbers, pattern=""):
    command = [bench.build / "cpu_kernels_bench", "--benchmark_format=json"]
    if pattern:
        command.append(f"--benchmark_filter={pattern}")
    document = json.loads(output_of(command, bench.environment))
    rows = []
    for row in document["benchmarks"]:
        if row.get("error_occurred"):
            continue
        bound = row.get("label") or ("memory" if "GFLOP/s" not in row else "product")
        rows.append({"name": row["name"].removesuffix("/iterations:1/manual_time"), "bound": bound,
                     "microseconds": row["real_time"], "gflops": row.get("GFLOP/s"), "gb_per_second": row["GB/s"],
                     "share": row["share"], "from_memory": bool(row.get("from_memory"))})
    judge_kernels(rows, numbers)
    return rows


def is_pointwise_chain(row):
    """Groups of row-wise operations that run as one kernel, and single pointwise operations."""
    return row["bound"] == "memory" and row["name"].split("/")[0] in ("group", "add", "mul", "silu")


def judge_kernels(rows, numbers):
    large = [row for row in rows if is_pointwise_chain(row)
             and row["microseconds"] * 1e-6 * row["gb_per_second"] * 1e9 >= LARGE_BYTES]
    claim = "pointwise chains of 8 MiB or more / copy bandwidth, the slowest"
    if not large:
        numbers.missing(claim, ">= 0.7", "no such kernel was timed")
        return
    slowest = min(large, key=lambda row: row["share"])
    numbers.at_least(claim, slowest["share"], 0.7, slowest["name"])
