"""Our side of the comparison: processes of dif, their reports, and the memory of the device meanwhile."""
import json
import os
import shlex
import shutil
import statistics
import subprocess
import threading
import time

import operations
from benchmark.runs import run_process, stop


def nvml_of_the_machine():
    try:
        import pynvml
        pynvml.nvmlInit()
        return pynvml
    except Exception:  # no such package, no driver
        return None


class DeviceWatch:
    """The most that is in use on device 0 while something runs, beyond what was in use before. NVML counts every
    process, contexts and libraries included; nothing where there is no NVML. `load` is what the device did meanwhile, as
    often as NVML was asked: its clock in MHz, its power in W."""

    def __init__(self, nvml=None):
        self.nvml, self.load = nvml or nvml_of_the_machine(), None
        self.handle = self.nvml.nvmlDeviceGetHandleByIndex(0) if self.nvml else None

    def used(self):
        return self.nvml.nvmlDeviceGetMemoryInfo(self.handle).used if self.nvml else 0

    def during(self, run):
        """(what run() gives, peak in MiB or None)"""
        if not self.nvml:
            return run(), None
        before, most, done, seen = self.used(), [0], threading.Event(), []

        def watch():
            while not done.wait(0.02):
                most[0] = max(most[0], self.used())
                seen.append((self.nvml.nvmlDeviceGetClockInfo(self.handle, self.nvml.NVML_CLOCK_SM),
                             self.nvml.nvmlDeviceGetPowerUsage(self.handle) / 1000))

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            found = run()
        finally:
            done.set()
            watcher.join()
        self.load = busy_load(seen)
        return found, round((most[0] - before) / 2**20)


def busy_load(seen):
    """Medians of those of (MHz, W) in which the device took at least half of the most power."""
    most = max((watts for _, watts in seen), default=0)
    busy = [one for one in seen if one[1] >= most / 2]
    if not busy:
        return None
    return {"clock_mhz": statistics.median(mhz for mhz, _ in busy), "power_watts": statistics.median(watts for _, watts in busy),
            "most_watts": most}


class Ours:
    def __init__(self, dif, model, request, options, scratch):
        self.dif, self.model, self.request, self.scratch = dif, model, request, scratch
        self.environment = {**os.environ, "DIF_CACHE_DIR": str(scratch / "cache")}
        self.watch = DeviceWatch()
        self.numerics = ["--backend", options.backend, "--dtype", options.dtype, "--vae-dtype", options.vae_dtype]
        if options.threads:
            self.numerics += ["--threads", options.threads]
        self.more = shlex.split(options.dif_options)

    def generate(self, *more):
        request = self.request
        return [self.dif, "generate", request["prompt"], "--model", self.model, "--seed", request["seed"], "--size",
                f"{request['width']}x{request['height']}", "--steps", request["steps"], "--guidance", request["guidance"],
                "--text-tokens", request["text_tokens"], "-q", "-o", self.scratch / "ours.png", *self.numerics,
                *self.more, *more]

    def process(self):
        """A whole process, prompt to file."""
        report = self.scratch / "process.json"
        run, peak = self.watch.during(lambda: run_process(self.generate("--report", report), environment=self.environment))
        document = json.loads(report.read_text())
        return {**run, "device_peak_mib": peak, "loading": loading_of(document), **stages_of(document)}

    def first_process(self):
        """The same with an empty cache of kernels and choices."""
        shutil.rmtree(self.scratch / "cache", ignore_errors=True)
        return self.process()

    def requests(self, times):
        """Requests to one process that has the model loaded."""
        report = self.scratch / "requests.json"
        _, peak = self.watch.during(lambda: run_process(self.generate("--repeat", times, "--report", report),
                                                         environment=self.environment))
        document = json.loads(report.read_text())
        return {"requests": [{"seconds": one["seconds"], **stages_of(one)} for one in document["requests"][1:]],
                "first_request": {"seconds": document["requests"][0]["seconds"], **stages_of(document["requests"][0])},
                "load": stages_of({"stages": before_requests(document["stages"])})["stages"],
                "memory": document["memory"], "device_peak_mib": peak, "device_load": self.watch.load,
                "guided": document["request"]["guided"],
                "programs": [{key: program[key] for key in ("name", "fingerprint", "prepared_fingerprint", "flops",
                                                            "resident_bytes", "streamed_bytes")}
                             for program in document["programs"]]}

    def profile(self, times):
        """Every operation by the device's clock, run one by one."""
        report = self.scratch / "profile.json"
        run_process(self.generate("--repeat", times, "--trace-ops", "--report", report), environment=self.environment)
        return operations.programs(json.loads(report.read_text()), times, self.request["steps"])

    def streamed(self, cap):
        """With the device memory that `cap` names: weights from pinned host memory and from their files. The second of two
        pictures counts; its latents must be those of a run without a cap."""
        def draw(name, *more):
            report, latents = self.scratch / f"{name}.json", self.scratch / f"{name}.diftensor"
            run, peak = self.watch.during(lambda: run_process(
                self.generate("--batch", 2, "--save-latents", latents, "--report", report, *more), environment=self.environment))
            document = json.loads(report.read_text())
            step = next(program for program in document["programs"] if program["name"] == "step")
            loops = [stage["seconds"] for stage in document["stages"] if stage["stage"] == "denoise"]
            last = self.scratch / f"{name}-1.diftensor"
            return {"step_ms": 1e3 * loops[-1] / self.request["steps"], "streamed_bytes": step["streamed_bytes"],
                    "resident_bytes": step["resident_bytes"], "device_peak_mib": peak, "seconds": run["seconds"],
                    "loading": loading_of(document)}, last.read_bytes()

        resident, wanted = draw("uncapped")
        found = {"cap": cap, "resident_step_ms": resident["step_ms"]}
        for source, option in (("pinned host memory", ["--host-pinned"]), ("page cache", [])):
            run, latents = draw("capped", "--max-vram", cap, *option)
            found[source] = {**run, "same_latents": latents == wanted}
        return found

    def boundaries(self, folder):
        """state.safetensors and picture.png for the peer."""
        folder.mkdir(exist_ok=True)
        request = self.request
        command = [self.dif, "difflux2sample", "--model-dir", self.model, "--vae-checkpoint", vae_of(self.model), "--prompt",
                   request["prompt"], "--seed", request["seed"], "--width", request["width"], "--height", request["height"],
                   "--steps", request["steps"], "--guidance", request["guidance"], "--text-tokens", request["text_tokens"],
                   "--capture-every", 1, "--state-output", folder / "state.safetensors", "--output", folder / "picture.png",
                   "--report", folder / "report.json", "-q", *self.numerics]
        run_process(command, environment=self.environment)


def vae_of(model):
    return next((model / "vae").glob("*.safetensors"))


def before_requests(stages):
    """Until the prompt is taken for the second time: loading also encodes it once."""
    tokenized = [i for i, stage in enumerate(stages) if stage["stage"] == "tokenize"]
    return stages[:tokenized[1] if len(tokenized) > 1 else len(stages)]


def stages_of(document):
    stages = {}
    for stage in document["stages"]:
        stages[stage["stage"]] = stages.get(stage["stage"], 0) + stage["seconds"]
    return {"stages": stages}


def loading_of(document):
    """What the programs read from files to the device, and how long that took; nothing where a backend does not load."""
    loads = [program["details"]["loading"] for program in document["programs"] if "loading" in program["details"]]
    return {key: sum(load[key] for load in loads) for key in ("bytes", "seconds")} if loads else None


def synthesise(dif, folder, options):
    """A checkpoint with random weights; seconds."""
    begin = time.monotonic()
    done = subprocess.run([str(dif), "difweights", "synth", *options, "-q", str(folder)], capture_output=True, text=True)
    if done.returncode != 0:
        stop([dif, "difweights", "synth"], done.returncode, done.stderr)
    return time.monotonic() - begin


def read_whole(model):
    """Brings the files into the page cache."""
    buffer = bytearray(1 << 24)
    for path in sorted(model.rglob("*.safetensors")):
        with open(path, "rb", buffering=0) as file:
            while file.readinto(buffer):
                pass
