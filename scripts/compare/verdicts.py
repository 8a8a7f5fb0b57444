"""The numbers of a comparison that are held against a bound."""
import statistics


def median_stage(requests, stage):
    return statistics.median(request["stages"][stage] for request in requests)


def judge(run, numbers):
    ours, peer, floor = run["ours"], run["diffusers"], run["floor"]
    requests = ours["resident"]["requests"]
    step = 1e3 * median_stage(requests, "denoise") / run["request"]["steps"]
    eager = min(times["step"] for times in peer["eager"].values())
    native = peer["eager"]["native"]["step"]
    what = run["name"]
    kind = "guided step" if peer["guided"] else "step"
    run["step_ms"] = step
    numbers.at_most(f"{what}: {kind} / diffusers eager", step / native, 0.75,
                    f"{step:.1f} ms and {native:.1f} ms (best attention {eager:.1f}); stretch 0.70")
    if "compiled" in peer and "step" in peer["compiled"]:
        compiled = peer["compiled"]["step"]
        numbers.at_most(f"{what}: {kind} / diffusers compiled", step / compiled, 0.92,
                        f"{step:.1f} ms and {compiled:.1f} ms; stretch 0.88")
    else:
        numbers.missing(f"{what}: {kind} / diffusers compiled", "<= 0.92", "not compiled in this run")
    numbers.at_most(f"{what}: {kind} / composite floor (stretch)", step / floor["step_ms"], 1.10,
                    f"floor {floor['step_ms']:.1f} ms: products {floor['linear_ms']:.1f}, attention "
                    f"{floor['attention_ms']:.1f}, traffic {floor['traffic_ms']:.1f}")
    judge_encode(run, numbers, what)
    decode = 1e3 * median_stage(requests, "decode")
    numbers.at_most(f"{what}: VAE decode / diffusers eager, {run['vae_dtype']}", decode / peer["decode"], 0.5,
                    f"{decode:.1f} ms and {peer['decode']:.1f} ms; stretch 0.3")
    judge_parity(peer["parity"], numbers, what)
    seconds = statistics.median(request["seconds"] for request in requests)
    theirs = statistics.median(peer["requests"])
    if run["whole_model"] and run["hidden"] == 3072 and not peer["guided"]:  # klein-4B, distilled
        numbers.at_most(f"{what}: request to PNG, model loaded, seconds", seconds, 0.40,
                        f"diffusers eager {theirs:.2f} s; stretch 0.30")
    write = 1e3 * median_stage(requests, "write")
    numbers.at_most(f"{what}: writing the PNG (random weights draw noise), ms", write, 40)
    judge_processes(run, numbers, what)
    if "streamed" in ours:
        judge_streamed(run, numbers, what)


def in_mib(size):
    units = {"MiB": 1, "GiB": 1024}
    return float(size[:-3]) * units[size[-3:]]


def judge_streamed(run, numbers, what):
    """A step with streamed weights against the slower of computing and fetching them."""
    streamed, ceilings = run["ours"]["streamed"], run["ceilings"]
    upload, read = ceilings["upload_gb_per_second"], ceilings["page_cache"]["gb_per_second"]
    for source, rate in (("pinned host memory", upload), ("page cache", min(upload, read))):
        found = streamed[source]
        fetch = found["streamed_bytes"] / rate / 1e6
        bound = max(streamed["resident_step_ms"], fetch)
        total = found["streamed_bytes"] + found["resident_bytes"]
        claim = f"{what}: --max-vram {streamed['cap']}, weights from {source}"
        numbers.at_most(f"{claim}: step / max(compute, fetch)", found["step_ms"] / bound, 1.10,
                        f"{found['step_ms']:.1f} ms; resident {streamed['resident_step_ms']:.1f} ms, fetching "
                        f"{found['streamed_bytes'] / 1e9:.1f} of {total / 1e9:.1f} GB {fetch:.1f} ms")
        numbers.holds(f"{claim}: latents are those of the resident run, bit for bit", found["same_latents"])
        if found["device_peak_mib"] is not None:
            numbers.at_most(f"{claim}: peak of the device / cap", found["device_peak_mib"] / in_mib(streamed["cap"]), 1.0,
                            f"{found['device_peak_mib']:.0f} MiB by NVML, context and libraries included")


def judge_encode(run, numbers, what):
    claim = f"{what}: text encode per layer run / diffusers eager"
    if run["small_encoder"]:
        numbers.missing(claim, "<= 0.7", "this checkpoint has the small text encoder")
        return
    requests, peer = run["ours"]["resident"]["requests"], run["diffusers"]
    prompts = 2 if peer["guided"] else 1
    ours = 1e3 * median_stage(requests, "encode") / prompts / run["encoder_layers"]
    theirs = peer["encode"]["encode"] / peer["encode"]["layers_run"]
    numbers.at_most(claim, ours / theirs, 0.7,
                    f"{ours:.3f} ms a layer for {run['encoder_layers']} layers, {theirs:.3f} for {peer['encode']['layers_run']}")


def judge_parity(rows, numbers, what):
    last = [row for row in rows if row["boundary"].startswith("latents after step")][-1]
    numbers.at_most(f"{what}: our error of the final latents / diffusers bf16's", last["ours"] / last["diffusers_bf16"], 1.2,
                    f"{last['ours']:.3g} and {last['diffusers_bf16']:.3g} relative L2 from diffusers f32")


def judge_processes(run, numbers, what):
    ours, peer = run["ours"], run["diffusers"]
    claim = f"{what}: fresh process to first PNG / diffusers eager"
    wall = min(process["seconds"] for process in ours["processes"])
    if "process" in peer:
        theirs = peer["process"]["wall_seconds"]
        numbers.at_most(claim, wall / theirs, 0.35, f"{wall:.2f} s and {theirs:.2f} s, files in the page cache")
    else:
        numbers.missing(claim, "<= 0.35", "the peer's process was not run")
    claim = f"{what}: loading / parallel read of the same files"
    loads = [process["loading"] for process in ours["processes"] if process.get("loading")]
    if not loads:
        numbers.missing(claim, ">= 0.8", "the reports say nothing of loading")
        return
    load = min(loads, key=lambda one: one["seconds"] / one["bytes"])
    run["loading"] = {**load, "gb_per_second": load["bytes"] / load["seconds"] / 1e9}
    cache, upload = run["ceilings"]["page_cache"], run["ceilings"]["upload_gb_per_second"]
    numbers.at_least(claim, run["loading"]["gb_per_second"] / cache["gb_per_second"], 0.8,
                     f"{load['bytes'] / 1e9:.2f} GB from files to the device at {run['loading']['gb_per_second']:.1f} GB/s; "
                     f"read by {cache['threads']} threads at {cache['gb_per_second']:.1f}, copied from pinned memory at "
                     f"{upload:.1f}")
